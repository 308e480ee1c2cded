/* lrn: entries over a power of the squares summed across neighbouring channels; planar or blocks of 16 channels. */
#include <string.h>

#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

enum { TILE = 512, PIXELS = 16, LANES = 16 }; /* pixels of a unit: planar, blocks */

typedef struct lrn_state {
  const ert_simd *simd;
  ert_walk pixels;               /* of x and of y; in blocks: in 16 floats each */
  float alpha, beta, bias;       /* alpha is already over size */
  int64_t before, after;         /* neighbours, at most all channels */
  int64_t channels, first, made; /* of x; those from `first` on have an output */
  int64_t x_step, y_step;        /* between channels, or blocks of them */
  int64_t blocks;                /* of x; 0: planar */
  int64_t tile, units;
} lrn_state;

/* x has the channels of y, and those of `halo` before and after. */
static edgert_status read_shapes(const ert_prepare *p, lrn_state *s) {
  static const int64_t none[2] = {0, 0};
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  const int64_t *halo = none;
  int64_t shape[ERT_MAX_RANK];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (x->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_layout(p, y, (ert_layout)x->layout));
  if (x->rank < 2) return ert_reject(p, "rank", "2 or more", "%d", x->rank);
  if (ert_attribute_find(p, "halo")) ERT_TRY(ert_ints(p, "halo", 2, 0, x->shape[1], &halo));
  if (x->layout == ERT_LAYOUT_BLOCK16 && halo[0] % LANES)
    return ert_reject(p, "halo of blocks of 16", "a multiple of 16", "%lld", (long long)halo[0]);
  memcpy(shape, x->shape, sizeof shape);
  shape[1] -= halo[0] + halo[1];
  ERT_TRY(ert_expect_shape(p, y, x->rank, shape));
  s->channels = x->shape[1];
  s->first = halo[0];
  s->made = shape[1];
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  int64_t size;
  void *state;
  ERT_TRY(ert_state(p, sizeof(lrn_state), &state));
  lrn_state *s = state;
  ERT_TRY(read_shapes(p, s));
  ERT_TRY(ert_int(p, "size", 1, INT64_MAX, &size));
  ERT_TRY(ert_float_or(p, "alpha", 1e-4f, &s->alpha));
  ERT_TRY(ert_float_or(p, "beta", 0.75f, &s->beta));
  ERT_TRY(ert_float_or(p, "bias", 1.0f, &s->bias));
  s->simd = p->simd;
  s->alpha /= (float)size;
  if (y->elements == 0) return EDGERT_OK;

  s->before = ert_min64((size - 1) / 2, s->channels);
  s->after = ert_min64(size - 1 - (size - 1) / 2, s->channels);
  const bool blocks = x->layout == ERT_LAYOUT_BLOCK16;
  s->x_step = ert_stride(x, 1);
  s->y_step = ert_stride(y, 1);
  s->pixels.operands = 2;
  for (int i = 0; i < x->rank; i++)
    if (i != 1)
      ert_walk_push(
          &s->pixels, x->shape[i],
          (const int64_t[]){ert_stride(x, i) / (blocks ? LANES : 1), ert_stride(y, i) / (blocks ? LANES : 1)});
  ert_walk_merge(&s->pixels, 2);
  s->tile = blocks ? PIXELS : TILE;
  if (blocks) {
    s->blocks = (s->channels + LANES - 1) / LANES;
    int64_t floats = 2 * s->blocks * LANES + s->before + s->after;
    p->step->scratch_bytes = (size_t)floats * sizeof(float);
  }
  s->units = ert_walk_tiles(&s->pixels, s->tile);
  const int64_t row = s->pixels.shape[s->pixels.rank - 1];
  p->step->tasks = ert_cut(s->units, ert_min64(row, s->tile) * s->channels * 4, p->workers);
  return EDGERT_OK;
}

static void run_lrn(const lrn_state *s, const float *neighbours, int64_t stride, int64_t count, const float *x,
                    float *y, int64_t n) {
  const ert_lrn l = {
      .alpha = s->alpha,
      .beta = s->beta,
      .bias = s->bias,
      .neighbours = neighbours,
      .stride = (ptrdiff_t)stride,
      .count = (size_t)count,
      .x = x,
      .y = y,
      .n = (size_t)n,
  };
  s->simd->lrn(&l);
}

static void planar_tile(const lrn_state *s, const float *x, float *y, int64_t width) {
  for (int64_t k = 0; k < s->made; k++) {
    const int64_t c = s->first + k;
    const int64_t from = ert_max64(c - s->before, 0), to = ert_min64(c + s->after + 1, s->channels);
    run_lrn(s, x + from * s->x_step, s->x_step, to - from, x + c * s->x_step, y + k * s->y_step, width);
  }
}

/* One pixel: its channels side by side, between zeros as far as the neighbourhood reaches. */
static void blocks_pixel(const lrn_state *s, const float *x, float *y, float *scratch) {
  const int64_t lanes = s->blocks * LANES;
  float *results = scratch, *neighbours = scratch + lanes, *values = neighbours + s->before;
  for (int64_t b = 0; b < s->blocks; b++) memcpy(values + b * LANES, x + b * s->x_step, LANES * sizeof(float));
  for (int64_t c = s->channels; c < lanes; c++) values[c] = 0;
  run_lrn(s, neighbours, 1, s->before + s->after + 1, values, results, lanes);
  const float *made = results + s->first;
  for (int64_t k = 0; k < s->made; k += LANES, made += LANES, y += s->y_step) memcpy(y, made, LANES * sizeof(float));
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const lrn_state *s = step->state;
  const int64_t pixel = s->blocks ? LANES : 1, last = ert_cut_at(s->units, step->tasks, end);
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  ert_cursor c;
  ert_walk_seek_tile(&s->pixels, s->tile, unit, &c);
  if (s->blocks && unit < last) memset(scratch, 0, step->scratch_bytes);
  for (int64_t n; unit < last; unit++, ert_walk_advance(&s->pixels, &c, n)) {
    n = ert_walk_width(&s->pixels, &c, s->tile);
    const float *x = (const float *)step->in[0]->data + c.offset[0] * pixel;
    float *y = (float *)step->out[0]->data + c.offset[1] * pixel;
    if (s->blocks)
      for (int64_t i = 0; i < n; i++) blocks_pixel(s, x + i * LANES, y + i * LANES, scratch);
    else
      planar_tile(s, x, y, n);
  }
}

const ert_kernel ert_kernel_lrn = {.name = "lrn", .prepare = prepare, .run = run, .views = true};
