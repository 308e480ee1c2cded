/* lrn: entries over a power of the squares summed across neighbouring channels; planar or blocks of 16 channels. */
#include <string.h>

#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

enum { TILE = 256, PIXELS = 16, LANES = 16 }; /* pixels of a unit: planar, blocks */

typedef struct lrn_state {
  const ert_simd *simd;
  float alpha, beta, bias; /* alpha is already over size */
  int64_t before, after;   /* neighbours, at most all channels */
  int64_t channels, pixels, blocks;
  int64_t tiles, units;
} lrn_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  const ert_tensor *x = p->step->in[0];
  int64_t size;
  void *state;
  ERT_TRY(ert_state(p, sizeof(lrn_state), &state));
  lrn_state *s = state;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  if (x->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  if (x->rank < 2) return ert_reject(p, "rank", "2 or more", "%d", x->rank);
  ERT_TRY(ert_int(p, "size", 1, INT64_MAX, &size));
  ERT_TRY(ert_float_or(p, "alpha", 1e-4f, &s->alpha));
  ERT_TRY(ert_float_or(p, "beta", 0.75f, &s->beta));
  ERT_TRY(ert_float_or(p, "bias", 1.0f, &s->bias));
  s->simd = p->simd;
  s->alpha /= (float)size;
  if (x->elements == 0) return p->step->tasks = 0, EDGERT_OK;

  s->channels = x->shape[1];
  s->pixels = ert_extent(x, 2, x->rank);
  s->before = ert_min64((size - 1) / 2, s->channels);
  s->after = ert_min64(size - 1 - (size - 1) / 2, s->channels);
  const bool blocks = x->layout == ERT_LAYOUT_BLOCK16;
  const int64_t tile = blocks ? PIXELS : TILE;
  if (blocks) {
    s->blocks = (s->channels + LANES - 1) / LANES;
    int64_t floats = 3 * s->blocks * LANES + s->before + s->after + ERT_SLIDE_SLACK;
    p->step->scratch_bytes = (size_t)floats * sizeof(float);
  }
  s->tiles = (s->pixels + tile - 1) / tile;
  s->units = x->shape[0] * s->tiles;
  p->step->tasks = ert_cut(s->units, ert_min64(s->pixels, tile) * s->channels * 4, p->workers);
  return EDGERT_OK;
}

static void planar_tile(const lrn_state *s, const float *x, float *y, int64_t width) {
  float sums[TILE];
  for (int64_t c = 0; c < s->channels; c++) {
    const int64_t from = ert_max64(c - s->before, 0), to = ert_min64(c + s->after + 1, s->channels);
    memset(sums, 0, sizeof sums);
    s->simd->fold_columns(ERT_FOLD_SQUARE, x + from * s->pixels, (ptrdiff_t)s->pixels, (size_t)(to - from), sums,
                          (size_t)width);
    s->simd->lrn(s->alpha, s->beta, s->bias, sums, x + c * s->pixels, y + c * s->pixels, (size_t)width);
  }
}

/* One pixel: its channels side by side, their squares between zeros as far as the neighbourhood reaches. */
static void blocks_pixel(const lrn_state *s, const float *x, float *y, float *scratch) {
  const int64_t lanes = s->blocks * LANES, block = s->pixels * LANES;
  float *values = scratch, *sums = scratch + lanes, *squares = scratch + 2 * lanes;
  for (int64_t b = 0; b < s->blocks; b++) memcpy(values + b * LANES, x + b * block, LANES * sizeof(float));
  for (int64_t c = s->channels; c < lanes; c++) values[c] = 0;
  for (int64_t c = 0; c < lanes; c++) squares[s->before + c] = values[c] * values[c];
  s->simd->pool_slide(true, squares, (size_t)(s->before + s->after + 1), 1, 1, sums, (size_t)lanes);
  s->simd->lrn(s->alpha, s->beta, s->bias, sums, values, values, (size_t)lanes);
  for (int64_t b = 0; b < s->blocks; b++) memcpy(y + b * block, values + b * LANES, LANES * sizeof(float));
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const lrn_state *s = step->state;
  const float *x = step->in[0]->data;
  float *y = step->out[0]->data;
  begin = ert_cut_at(s->units, step->tasks, begin);
  end = ert_cut_at(s->units, step->tasks, end);
  if (s->blocks && begin < end) memset(scratch, 0, step->scratch_bytes);
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t image = unit / s->tiles, first = unit % s->tiles * (s->blocks ? PIXELS : TILE);
    if (s->blocks) {
      const int64_t at = (image * s->blocks * s->pixels + first) * LANES;
      const int64_t n = ert_min64(s->pixels - first, PIXELS);
      for (int64_t i = 0; i < n; i++) blocks_pixel(s, x + at + i * LANES, y + at + i * LANES, scratch);
    } else {
      const int64_t at = image * s->channels * s->pixels + first;
      planar_tile(s, x + at, y + at, ert_min64(s->pixels - first, TILE));
    }
  }
}

const ert_kernel ert_kernel_lrn = {.name = "lrn", .prepare = prepare, .run = run};
