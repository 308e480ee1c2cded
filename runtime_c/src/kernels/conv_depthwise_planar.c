/* conv_depthwise_planar: one filter a channel over planar activations, as the list of its taps that are not zero. */
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/partition.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

/* A task computes, for one image, block of 16 channels and output depth, a band of rows. The inputs of a channel's band are
 * copied to scratch as lines, which are zero where they lie in the padding: [phases][lines][pitch]. A phase is a tap of
 * depth, with the rows and the columns that taps of the same place modulo the strides read: every stride-th. */
typedef struct planar_state {
  ert_conv_geometry g;
  ert_finish finish;
  const ert_simd *simd;
  ert_strides x, y, residual;
  int64_t channels, blocks, bands;
  int64_t rows;            /* of the largest band */
  int64_t pitch, lead;     /* floats of a line, and before the first one */
  int64_t lines, columns;  /* that a phase has for the largest band, and that are read of a line */
  int64_t phase;           /* floats of a phase */
  int64_t phases[3], size; /* size: floats of a channel */
  bool nine;               /* 3 by 3 taps that need no scratch, of all channels but those with few of them */
  bool lists;              /* there are others */
  ert_tap table[256];      /* of every byte, so that none can lead astray */
  ert_tap_grid grid;       /* if it has rows */
  ptrdiff_t at[];          /* of every tap, if there is a grid */
} planar_state;

enum {
  BAND_FLOATS = 4 * 1024, /* of scratch that a band may fill, so that it stays in the first cache */
  GAP = 16,               /* floats behind a phase */
  SLACK = 64,
};

static edgert_status planar_prove(const ert_prepare *p, ert_conv_geometry *g) {
  ERT_TRY(ert_expect_operands(p, 5, 7, 1, 1));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *values = step->in[1], *taps = step->in[2], *counts = step->in[3];
  const ert_tensor *starts = step->in[4], *y = step->out[0];
  const ert_tensor *bias = step->n_in > 5 ? step->in[5] : NULL, *residual = step->n_in > 6 ? step->in[6] : NULL;
  ERT_TRY(ert_expect_planar(p));
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  const int64_t *kernel;
  ERT_TRY(ert_ints(p, "kernel", x->rank - 2u, 1, ERT_MOST_TAPS, &kernel));
  ERT_TRY(ert_conv_geometry_read(p, x, y, kernel, false, g));
  if (ert_volume(g->kernel) > ERT_MOST_TAPS)
    return ert_reject(p, "taps of the kernel", "at most 255", "%lld", (long long)ert_volume(g->kernel));
  if (g->groups != x->shape[1] || g->filters != 1)
    return ert_reject(p, "group", "as many as input and output channels", "%lld", (long long)g->groups);
  const int64_t channels[] = {x->shape[1]}, blocks[] = {(x->shape[1] + 15) / 16};
  ERT_TRY(ert_expect_dtype(p, values, EDGERT_F32));
  ERT_TRY(ert_expect_shape(p, values, 1, values->shape));
  ERT_TRY(ert_expect_dtype(p, taps, EDGERT_U8));
  ERT_TRY(ert_expect_shape(p, taps, 1, values->shape));
  ERT_TRY(ert_expect_dtype(p, counts, EDGERT_U8));
  ERT_TRY(ert_expect_shape(p, counts, 1, channels));
  ERT_TRY(ert_expect_dtype(p, starts, EDGERT_I32));
  ERT_TRY(ert_expect_shape(p, starts, 1, blocks));
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_shape(p, bias, 1, channels));
  }
  return residual ? ert_expect_same_type(p, y, residual) : EDGERT_OK;
}

/* Every block's taps lie within the list. */
static edgert_status prove_lists(const ert_prepare *p) {
  const ert_tensor *values = p->step->in[1], *counts = p->step->in[3], *starts = p->step->in[4];
  if (!counts->constant || !starts->constant)
    return ert_reject(p, "counts and starts of taps", "constants", "values of the program");
  const uint8_t *count = counts->data;
  const int32_t *start = starts->data;
  for (int64_t block = 0; block < starts->shape[0]; block++) {
    int64_t sum = 0;
    for (int64_t c = block * 16; c < ert_min64(block * 16 + 16, counts->shape[0]); c++) sum += count[c];
    if (start[block] < 0 || start[block] + sum > values->shape[0])
      return ert_reject(p, "taps of a block", "ones within the list", "%lld from %ld on", (long long)sum,
                        (long)start[block]);
  }
  return EDGERT_OK;
}

/* Lays out the scratch for bands of `rows`; false if its size overflows. */
static bool lay_out(planar_state *s, int64_t rows) {
  const ert_conv_geometry *g = &s->g;
  s->rows = rows;
  s->columns = g->out[2] + g->reach[2] / g->stride[2];
  s->lines = rows + g->reach[1] / g->stride[1];
  int64_t before = s->columns, behind = s->columns, first = 0; /* zeros of every line; of lines of the first phase */
  for (int64_t w = s->phases[2] - 1; w >= 0; w--) {
    int64_t right;
    ert_taps_inside(w * g->dilation[2] % g->stride[2] - g->pad[2], g->stride[2], s->columns, g->in[2], &first, &right);
    before = ert_min64(before, first), behind = ert_min64(behind, s->columns - right);
  }
  /* A line may end in the zeros that the next one begins with. */
  const int64_t least = ert_max64(s->columns - ert_min64(before, behind), g->out[2]);
  s->pitch = least <= 8 ? 8 : (least + 15) / 16 * 16;
  s->lead = (first + 15) / 16 * 16 - first; /* so that columns of the input begin at whole vectors */
  size_t size = (size_t)s->pitch;
  if (!ert_multiply(size, (size_t)s->lines, &size) || size > SIZE_MAX / 2) return false;
  s->phase = (int64_t)(size += GAP);
  if (!ert_multiply(size, (size_t)(s->phases[0] * s->phases[1] * s->phases[2]), &size)) return false;
  if (size > SIZE_MAX / 64 - (size_t)s->columns) return false;
  s->size = ((int64_t)size + s->lead + s->columns + SLACK + 15) / 16 * 16;
  return true;
}

static void place_taps(planar_state *s) {
  const ert_conv_geometry *g = &s->g;
  ert_tap *tap = s->table;
  for (int64_t d = 0; d < g->kernel[0]; d++)
    for (int64_t h = 0; h < g->kernel[1]; h++)
      for (int64_t w = 0; w < g->kernel[2]; w++, tap++) {
        const int64_t phase = (d * s->phases[1] + h % s->phases[1]) * s->phases[2] + w % s->phases[2];
        const int64_t line = s->lead + phase * s->phase + h * g->dilation[1] / g->stride[1] * s->pitch;
        *tap = (ert_tap){(int32_t)(line + w * g->dilation[2] / g->stride[2]), (uint8_t)phase};
      }
}

/* Percent of the taps from which on the grid is faster than the list: most of them where lines follow one another in
 * scratch without gaps, so that the list's tiles are of whole rows. */
static int64_t grid_least(const planar_state *s, int64_t stride) {
  if (s->pitch != (s->g.out[2] + 15) / 16 * 16) return 40;
  return s->g.kernel[1] >= 7 && stride == 1 ? 70 : 85;
}

/* Four rows of taps or more, of outputs whose neighbours' taps read the same lines. */
static bool has_grid(const ert_conv_geometry *g) { return g->kernel[1] >= 4 && ert_tap_period(g, 1) <= 2; }

static void place_grid(planar_state *s) {
  const ert_conv_geometry *g = &s->g;
  const int64_t taps = ert_volume(g->kernel), stride = ert_tap_period(g, 1);
  s->grid = (ert_tap_grid){
      .least = (size_t)(taps * grid_least(s, stride) / 100),
      .depth = (size_t)g->kernel[0],
      .rows = (size_t)g->kernel[1],
      .columns = (size_t)g->kernel[2],
      .apart = (size_t)(g->dilation[1] * stride / g->stride[1]),
      .stride = (size_t)stride,
      .step = g->dilation[1],
      .at = s->at,
  };
  for (int64_t t = 0; t < taps; t++) s->at[t] = s->table[t].at;
}

/* 3 by 3 taps of outputs, one or two apart, whose middle taps lie inside: so at most one row of taps is above, and one below
 * the inputs. */
static bool is_nine(const ert_conv_geometry *g) {
  const int64_t below = (g->out[1] - 1) * g->stride[1] - g->pad[1] + 2;
  return g->pad[1] <= 1 && below <= g->in[1] && g->kernel[0] == 1 && g->kernel[1] == 3 && g->kernel[2] == 3 &&
         g->stride[1] <= 2 && g->stride[2] == g->stride[1] && g->dilation[1] == 1 && g->dilation[2] == 1 &&
         g->pad[2] == 1 && (g->out[2] - 1) * g->stride[2] < g->in[2] && g->in[0] == 1 && g->out[0] == 1 &&
         g->pad[0] == 0;
}

static bool has_lists(const planar_state *s, const uint8_t *counts) {
  bool few = !s->nine;
  for (int64_t c = 0; c < s->channels; c++) few |= counts[c] < ERT_NINE_LEAST;
  return few;
}

static edgert_status planar_prepare(ert_prepare *p) {
  ert_allow_in_place(p, 6);
  ert_conv_geometry g;
  ert_activation activation;
  ERT_TRY(planar_prove(p, &g));
  ERT_TRY(prove_lists(p));
  ERT_TRY(ert_activation_read(p, &activation));
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  planar_state *s;
  ERT_TRY(ert_state(p, sizeof *s + (has_grid(&g) ? (size_t)ert_volume(g.kernel) * sizeof *s->at : 0), (void **)&s));
  s->g = g;
  s->finish = ert_finish_of(activation);
  s->simd = p->simd;
  ert_strides_of_step(p->step, 6, &s->x, &s->y, &s->residual);
  s->channels = g.groups;
  s->blocks = (s->channels + 15) / 16;
  s->phases[0] = g.kernel[0], s->phases[1] = ert_tap_phases(&g, 1), s->phases[2] = ert_tap_phases(&g, 2);
  const int64_t tasks = g.batch * s->blocks * g.out[0];
  const double products = 16 * (double)(g.out[1] * g.out[2]) * (double)ert_volume(g.kernel);
  s->bands = ert_min64(ert_pieces(tasks, (double)tasks * products, p->workers), g.out[1]);
  bool fits = lay_out(s, ert_ceil_divide(g.out[1], s->bands));
  s->nine = is_nine(&g);
  s->lists = has_lists(s, p->step->in[3]->data);
  while (fits && s->lists && s->size > BAND_FLOATS && s->rows > 1) {
    s->bands = ert_min64(ert_max64(s->bands + 1, g.out[1] / s->rows), g.out[1]);
    fits = lay_out(s, ert_ceil_divide(g.out[1], s->bands));
  }
  if (!fits || s->size > INT32_MAX) return ert_reject(p, "inputs of one output row", "less than 8 GiB", "more");
  ERT_TRY(ert_conv_expect_worth(p, s->size, products));
  place_taps(s);
  if (has_grid(&g)) place_grid(s);
  if (s->lists) p->step->scratch_bytes = 2 * (size_t)s->size * sizeof(float);
  p->step->tasks = tasks * s->bands;
  return EDGERT_OK;
}

/* The lines of each phase that lie inside of the input. */
static void find_phases(const planar_state *s, const ert_conv_band *t, ert_phase *phase) {
  const ert_conv_geometry *g = &s->g;
  for (int64_t z = 0; z < s->phases[0]; z++)
    for (int64_t h = 0; h < s->phases[1]; h++)
      for (int64_t w = 0; w < s->phases[2]; w++, phase++) {
        const int64_t depth = t->depth * g->stride[0] - g->pad[0] + z * g->dilation[0];
        const int64_t row = t->row * g->stride[1] - g->pad[1] + h * g->dilation[1] % g->stride[1];
        const int64_t column = w * g->dilation[2] % g->stride[2] - g->pad[2];
        const int64_t number = (z * s->phases[1] + h) * s->phases[2] + w;
        int64_t top, bottom, left, right;
        ert_taps_inside(row, g->stride[1], t->rows + g->reach[1] / g->stride[1], g->in[1], &top, &bottom);
        ert_taps_inside(column, g->stride[2], s->columns, g->in[2], &left, &right);
        if (depth < 0 || depth >= g->in[0] || top == bottom || left == right) {
          *phase = (ert_phase){0};
          continue;
        }
        *phase = (ert_phase){
            .from = ert_position(&s->x, 0, depth, row + top * g->stride[1], column + left * g->stride[2]),
            .to = s->lead + number * s->phase + top * s->pitch + left,
            .rows = (size_t)(bottom - top),
            .columns = (size_t)(right - left),
        };
      }
}

/* `clear`: scratch may have other values where no phase lies. */
static void run_task(const ert_step *step, const ert_conv_band *t, bool clear, float *scratch) {
  const planar_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  const ert_tensor *bias = step->n_in > 5 ? step->in[5] : NULL, *residual = step->n_in > 6 ? step->in[6] : NULL;
  const int64_t channel = t->block * 16, start = ((const int32_t *)step->in[4]->data)[t->block];
  ert_phase phases[ERT_MOST_TAPS];
  if (s->lists) find_phases(s, t, phases);
  if (s->lists && clear) memset(scratch, 0, 2 * (size_t)s->size * sizeof(float));
  ert_depthwise_planar d = {
      .x = (const float *)step->in[0]->data + t->image * s->x.image + channel * s->x.channel,
      .x_channel = s->x.channel,
      .x_row = g->stride[1] * s->x.row,
      .x_step = (size_t)g->stride[2],
      .phases = phases,
      .n_phases = (size_t)(s->phases[0] * s->phases[1] * s->phases[2]),
      .table = s->table,
      .pairs = g->stride[2] == 2 && s->phases[2] == 2,
      .nine = s->nine,
      .grid = s->grid.rows > 0 ? &s->grid : NULL,
      .stride = (size_t)g->stride[1],
      .first = t->row * g->stride[1] - g->pad[1],
      .row = s->x.row,
      .height = g->in[1],
      .width = g->in[2],
      .size = (size_t)s->size,
      .scratch = scratch,
      .pitch = (size_t)s->pitch,
      .values = (const float *)step->in[1]->data + start,
      .taps = (const uint8_t *)step->in[2]->data + start,
      .counts = (const uint8_t *)step->in[3]->data + channel,
      .channels = (size_t)ert_min64(16, s->channels - channel),
      .bias = bias ? (const float *)bias->data + channel : NULL,
      .y = (float *)step->out[0]->data + ert_position(&s->y, t->image, t->depth, t->row, 0) + channel * s->y.channel,
      .y_channel = s->y.channel,
      .y_row = s->y.row,
      .residual_channel = s->residual.channel,
      .residual_row = s->residual.row,
      .rows = (size_t)t->rows,
      .pixels = (size_t)g->out[2],
      .lo = s->finish.lo,
      .hi = s->finish.hi,
  };
  if (residual)
    d.residual = (const float *)residual->data + ert_position(&s->residual, t->image, t->depth, t->row, 0) +
                 channel * s->residual.channel;
  s->simd->depthwise_planar(&d);
  ert_finish_stored(&s->finish, s->simd, d.y, d.channels, d.y_channel, d.rows, d.y_row, d.pixels);
}

static void planar_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const planar_state *s = step->state;
  for (int64_t i = begin; i < end; i++) {
    const ert_conv_band t = ert_conv_band_at(&s->g, s->blocks, s->bands, i);
    run_task(step, &t, i == begin || s->bands > 1 || s->g.out[0] > 1, scratch);
  }
}

extern const ert_kernel ert_kernel_conv_depthwise_planar;
const ert_kernel ert_kernel_conv_depthwise_planar = {
    .name = "conv_depthwise_planar", .prepare = planar_prepare, .run = planar_run, .views = true};
