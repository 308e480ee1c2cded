/* conv_transpose: transposed convolution over planar activations, weights and bias.
 *
 * With q = output + pad, tap t meets input (q - t * dilation) / stride where that division is exact. The outputs of one
 * remainder of q, a phase, thus form an ordinary convolution of stride 1 with the taps of that remainder: with q = phase +
 * stride * m, tap t meets input m - back(t). Each phase runs on the dense inner loop over a band of inputs in blocks of 16
 * channels, with weights packed for the phase. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/partition.h"
#include "kernels/simd/simd.h"

enum {
  RUN_BLOCKS = 4,           /* blocks of 16 output channels a task computes */
  BAND_FLOATS = 256 * 1024, /* inputs of a band */
  BAND_POSITIONS = 4096,    /* outputs of a phase of a band */
};

/* A task computes, for one image and group, all phases of a band of m (depth: one, rows and columns: several) for a run of
 * blocks of output channels. In the geometry "in" is y's side and "out" is x's. */
typedef struct transpose_state {
  ert_conv_geometry g;
  ert_finish finish;
  const ert_simd *simd;
  ert_strides x, y;
  ert_strides w;              /* its channels as images, its filters as channels */
  int64_t first[3], count[3]; /* the values of m that outputs have */
  int64_t back[3];            /* the largest back(t) */
  int64_t phases[3];          /* that outputs have: those of the first so many outputs */
  int64_t runs, row_bands, column_bands;
  int64_t rows, columns; /* of the largest band */
  int64_t lanes, channel_blocks;
  int64_t band_size, weights_size, tile_size; /* floats in scratch */
  size_t n_spans;                             /* of the phase with most taps */
} transpose_state;

static edgert_status transpose_prove(const ert_prepare *p, ert_conv_geometry *g) {
  ERT_TRY(ert_expect_operands(p, 2, 3, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *w = p->step->in[1], *y = p->step->out[0];
  const ert_tensor *bias = p->step->n_in > 2 ? p->step->in[2] : NULL;
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_F32));
  if (w->rank != x->rank) return ert_reject(p, "rank of the weights", "that of the input", "%d", w->rank);
  ERT_TRY(ert_conv_geometry_read(p, x, y, w->shape + 2, true, g));
  int64_t shape[ERT_MAX_RANK] = {x->shape[1], g->filters};
  for (int i = 2; i < w->rank; i++) shape[i] = w->shape[i];
  ERT_TRY(ert_expect_shape(p, w, w->rank, shape));
  if (!bias) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
  return ert_expect_shape(p, bias, 1, &y->shape[1]);
}

/* Bands that stay in the cache, and more of them until every worker has some. */
static void transpose_cut(transpose_state *s, int64_t workers) {
  const ert_conv_geometry *g = &s->g;
  s->runs = ert_ceil_divide(ert_ceil_divide(g->filters, 16), RUN_BLOCKS);
  s->column_bands = ert_ceil_divide(s->count[2], BAND_POSITIONS / 4);
  const int64_t columns = ert_ceil_divide(s->count[2], s->column_bands);
  const double row = (double)ert_max64(g->channels, 1) * (double)(columns + s->back[2]) * (double)(s->back[0] + 1);
  const double fitting = (double)BAND_FLOATS / row - (double)s->back[1];
  const int64_t rows = ert_clamp64(fitting < 1 ? 1 : (int64_t)fitting, 1, ert_max64(BAND_POSITIONS / columns, 1));
  s->row_bands = ert_ceil_divide(s->count[1], rows);
  const double products = (double)g->filters * (double)g->channels * (double)ert_volume(g->kernel) *
                          (double)ert_volume(g->out) * (double)g->groups * (double)g->batch;
  const int64_t tasks = g->batch * g->groups * s->count[0] * s->runs * s->column_bands * s->row_bands;
  s->row_bands = ert_min64(s->row_bands * ert_pieces(tasks, products, workers), s->count[1]);
}

/* Sizes of the scratch; false if one overflows. */
static bool transpose_sizes(transpose_state *s, size_t *bytes) {
  const ert_conv_geometry *g = &s->g;
  s->rows = ert_ceil_divide(s->count[1], s->row_bands);
  s->columns = ert_ceil_divide(s->count[2], s->column_bands);
  s->lanes = ert_min64(g->channels, 16);
  s->channel_blocks = ert_ceil_divide(g->channels, 16);
  size_t band = (size_t)(s->channel_blocks * s->lanes), weights = (size_t)(g->channels * RUN_BLOCKS * 16), taps = 1,
         total;
  for (int d = 0; d < 3; d++) {
    taps *= (size_t)ert_ceil_divide(g->kernel[d], ert_tap_period(g, d)); /* of the phase with most */
    const int64_t positions = d == 0 ? 1 : d == 1 ? s->rows : s->columns;
    if (!ert_multiply(band, (size_t)(positions + s->back[d]), &band)) return false;
  }
  s->n_spans = taps * (size_t)s->channel_blocks;
  if (!ert_multiply(weights, taps, &weights)) return false;
  const size_t tile = (size_t)(s->rows * s->columns) * RUN_BLOCKS * 16;
  if (!ert_add(band, weights, &total) || !ert_add(total, tile, &total) || total > SIZE_MAX / 64) return false;
  s->band_size = (int64_t)((band + 15) / 16 * 16);
  s->weights_size = (int64_t)weights;
  s->tile_size = (int64_t)tile;
  *bytes = (total + 16 + RUN_BLOCKS * 16) * sizeof(float) + s->n_spans * sizeof(ert_span);
  return true;
}

static edgert_status transpose_prepare(ert_prepare *p) {
  ert_conv_geometry g;
  ert_activation activation;
  ERT_TRY(transpose_prove(p, &g));
  ERT_TRY(ert_activation_read(p, &activation));
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  transpose_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->g = g;
  s->finish = ert_finish_of(activation);
  s->simd = p->simd;
  s->x = ert_strides_of(p->step->in[0]);
  s->y = ert_strides_of(p->step->out[0]);
  s->w = ert_strides_of(p->step->in[1]);
  for (int d = 0; d < 3; d++) {
    s->first[d] = g.pad[d] / g.stride[d];
    s->count[d] = (g.pad[d] + g.in[d] - 1) / g.stride[d] - s->first[d] + 1;
    s->back[d] = g.reach[d] / g.stride[d];
    s->phases[d] = ert_min64(g.stride[d], g.in[d]);
  }
  transpose_cut(s, p->workers);
  if (!transpose_sizes(s, &p->step->scratch_bytes))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  const double weights = (double)g.filters * (double)g.channels * (double)ert_volume(g.kernel);
  ERT_TRY(ert_conv_expect_worth(p, s->band_size, (double)s->rows * (double)s->columns * weights));
  p->step->tasks = g.batch * g.groups * s->count[0] * s->row_bands * s->column_bands * s->runs;
  return EDGERT_OK;
}

/* One task, and the phase of it in work. */
typedef struct transpose_task {
  int64_t image, group, block, blocks;
  int64_t m[3], n[3]; /* first m and how many */
  float *band, *weights, *bias, *tile;
  ert_span *spans;
} transpose_task;

/* Copies the inputs m - back .. m of the band to scratch in [planes][rows][channel blocks][columns][lanes], zeros outside. */
static void gather_inputs(const transpose_state *s, const transpose_task *t, const float *x) {
  const ert_conv_geometry *g = &s->g;
  const int64_t columns = t->n[2] + s->back[2], rows = t->n[1] + s->back[1], pitch = columns * s->lanes;
  const int64_t column = t->m[2] - s->back[2];
  const int64_t left = ert_clamp64(-column, 0, columns), right = ert_clamp64(g->out[2] - column, left, columns);
  memset(t->band, 0, (size_t)((s->back[0] + 1) * rows * s->channel_blocks * pitch) * sizeof(float));
  for (int64_t i = 0; i <= s->back[0]; i++)
    for (int64_t r = 0; r < rows; r++) {
      const int64_t d = t->m[0] - s->back[0] + i, h = t->m[1] - s->back[1] + r;
      if (d < 0 || d >= g->out[0] || h < 0 || h >= g->out[1] || left == right) continue;
      float *line = t->band + (i * rows + r) * s->channel_blocks * pitch;
      const ert_blocks blocks = {line + left * s->lanes, pitch, s->lanes};
      const float *from = x + ert_position(&s->x, t->image, d, h, column + left);
      ert_gather_channels(from, &s->x, t->group * g->channels, g->channels, 1, right - left, blocks);
    }
}

/* Weights of one tap, whose first one is at w, for the input channels [c, c + lanes) of every block of the run, at row `row`
 * of each block. */
static void pack_tap(const transpose_state *s, const transpose_task *t, const float *w, int64_t c, int64_t lanes,
                     int64_t row, int64_t w_block) {
  const ert_conv_geometry *g = &s->g;
  for (int64_t b = 0; b < t->blocks; b++) {
    const int64_t filter = (t->block + b) * 16, filters = ert_min64(16, g->filters - filter);
    for (int64_t i = 0; i < lanes; i++) {
      const float *from = w + (t->group * g->channels + c + i) * s->w.image + filter * s->w.channel;
      float *to = t->weights + b * w_block + (row + i) * 16;
      for (int64_t k = 0; k < filters; k++) to[k] = from[k * s->w.channel];
      for (int64_t k = filters; k < 16; k++) to[k] = 0;
    }
  }
}

/* Taps of one dimension that belong to a phase. */
typedef struct phase_taps {
  int64_t first, step, count;
} phase_taps;

static phase_taps taps_of(const ert_conv_geometry *g, int d, int64_t phase) {
  phase_taps taps = {.step = ert_tap_period(g, d)};
  while (taps.first < g->kernel[d] && taps.first * g->dilation[d] % g->stride[d] != phase) taps.first++;
  if (taps.first < g->kernel[d]) taps.count = ert_ceil_divide(g->kernel[d] - taps.first, taps.step);
  return taps;
}

/* Finds where the taps of a phase lie in the band, and packs their weights in the same order. */
static size_t pack_phase(const transpose_state *s, const transpose_task *t, const float *w, const int64_t phase[3],
                         int64_t *w_block) {
  const ert_conv_geometry *g = &s->g;
  const phase_taps t0 = taps_of(g, 0, phase[0]), t1 = taps_of(g, 1, phase[1]), t2 = taps_of(g, 2, phase[2]);
  const int64_t line = (t->n[2] + s->back[2]) * s->lanes, row = line * s->channel_blocks,
                plane = row * (t->n[1] + s->back[1]);
  size_t n = 0;
  int64_t packed = 0;
  *w_block = t0.count * t1.count * t2.count * g->channels * 16;
  for (int64_t c = 0; c < g->channels; c += 16)
    for (int64_t i = 0; i < t0.count; i++)
      for (int64_t j = 0; j < t1.count; j++)
        for (int64_t k = 0; k < t2.count; k++) {
          const int64_t tap[3] = {t0.first + i * t0.step, t1.first + j * t1.step, t2.first + k * t2.step};
          int64_t at[3];
          for (int d = 0; d < 3; d++) at[d] = s->back[d] - (tap[d] * g->dilation[d] - phase[d]) / g->stride[d];
          const int64_t lanes = ert_min64(16, g->channels - c);
          t->spans[n++] = (ert_span){at[0] * plane + at[1] * row + c / 16 * line + at[2] * s->lanes, (size_t)lanes, 0};
          pack_tap(s, t, w + ert_position(&s->w, 0, tap[0], tap[1], tap[2]), c, lanes, packed, *w_block);
          packed += lanes;
        }
  return n;
}

/* Stores the tile of a phase: output = phase + stride * m - pad, where that is inside. */
static void scatter_phase(const transpose_state *s, const transpose_task *t, float *y, const int64_t phase[3]) {
  const ert_conv_geometry *g = &s->g;
  const int64_t depth = phase[0] + g->stride[0] * t->m[0] - g->pad[0], positions = t->n[1] * t->n[2];
  const int64_t filters = ert_min64(t->blocks * 16, g->filters - t->block * 16);
  const int64_t base = phase[2] + g->stride[2] * t->m[2] - g->pad[2];
  const int64_t left = base < 0 ? 1 : 0,
                right = ert_clamp64(ert_ceil_divide(ert_max64(g->in[2] - base, 0), g->stride[2]), left, t->n[2]);
  for (int64_t r = 0; r < t->n[1]; r++) {
    const int64_t h = phase[1] + g->stride[1] * (t->m[1] + r) - g->pad[1];
    if (depth < 0 || depth >= g->in[0] || h < 0 || h >= g->in[1]) continue;
    for (int64_t k = 0; k < filters; k++) {
      const int64_t channel = t->group * g->filters + t->block * 16 + k;
      const float *from = t->tile + (k / 16 * positions + r * t->n[2]) * 16 + k % 16;
      float *to = y + channel * s->y.channel + ert_position(&s->y, t->image, depth, h, 0);
      for (int64_t m = left; m < right; m++) to[base + m * g->stride[2]] = from[m * 16];
    }
  }
}

static void run_phase(const ert_step *step, const transpose_task *t, const int64_t phase[3]) {
  const transpose_state *s = step->state;
  int64_t w_block;
  const size_t n_spans = pack_phase(s, t, step->in[1]->data, phase, &w_block);
  const ert_dense d = {
      .x = t->band,
      .x_pixel = s->lanes,
      .x_row = (t->n[2] + s->back[2]) * s->lanes * s->channel_blocks,
      .spans = t->spans,
      .n_spans = n_spans,
      .w = t->weights,
      .w_block = w_block,
      .bias = t->bias,
      .y = t->tile,
      .y_pixel = 16,
      .y_row = t->n[2] * 16,
      .y_block = t->n[1] * t->n[2] * 16,
      .rows = (size_t)t->n[1],
      .pixels = (size_t)t->n[2],
      .blocks = (size_t)t->blocks,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
  };
  s->simd->dense(&d);
  const ert_activation *a = &s->finish.activation;
  if (s->finish.function) s->simd->unary(a->kind, a->alpha, a->beta, t->tile, t->tile, (size_t)(t->blocks * d.y_block));
  scatter_phase(s, t, step->out[0]->data, phase);
}

static transpose_task task_at(const transpose_state *s, int64_t task, void *scratch) {
  const ert_conv_geometry *g = &s->g;
  float *floats = scratch;
  transpose_task t = {.band = floats, .weights = floats + s->band_size, .n = {1, 0, 0}};
  t.tile = t.weights + s->weights_size;
  t.bias = t.tile + s->tile_size;
  t.spans = (ert_span *)(void *)(t.bias + RUN_BLOCKS * 16);
  t.block = task % s->runs * RUN_BLOCKS;
  t.blocks = ert_min64(RUN_BLOCKS, ert_ceil_divide(g->filters, 16) - t.block);
  task /= s->runs;
  const int64_t column = task % s->column_bands, row = task / s->column_bands % s->row_bands;
  task = task / s->column_bands / s->row_bands;
  t.m[0] = s->first[0] + task % s->count[0];
  t.m[1] = s->first[1] + ert_cut_at(s->count[1], s->row_bands, row);
  t.n[1] = s->first[1] + ert_cut_at(s->count[1], s->row_bands, row + 1) - t.m[1];
  t.m[2] = s->first[2] + ert_cut_at(s->count[2], s->column_bands, column);
  t.n[2] = s->first[2] + ert_cut_at(s->count[2], s->column_bands, column + 1) - t.m[2];
  t.group = task / s->count[0] % g->groups;
  t.image = task / s->count[0] / g->groups;
  return t;
}

static void transpose_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const transpose_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL;
  for (int64_t i = begin; i < end; i++) {
    const transpose_task t = task_at(s, i, scratch);
    const int64_t filter = t.block * 16, filters = ert_min64(t.blocks * 16, g->filters - filter);
    memset(t.bias, 0, RUN_BLOCKS * 16 * sizeof(float));
    if (bias)
      memcpy(t.bias, (const float *)bias->data + t.group * g->filters + filter, (size_t)filters * sizeof(float));
    if (g->channels > 0) gather_inputs(s, &t, step->in[0]->data);
    for (int64_t o0 = 0; o0 < s->phases[0]; o0++)
      for (int64_t o1 = 0; o1 < s->phases[1]; o1++)
        for (int64_t o2 = 0; o2 < s->phases[2]; o2++) {
          const int64_t q[3] = {g->pad[0] + o0, g->pad[1] + o1, g->pad[2] + o2};
          const int64_t phase[3] = {q[0] % g->stride[0], q[1] % g->stride[1], q[2] % g->stride[2]};
          run_phase(step, &t, phase);
        }
  }
}

extern const ert_kernel ert_kernel_conv_transpose;
const ert_kernel ert_kernel_conv_transpose = {
    .name = "conv_transpose", .prepare = transpose_prepare, .run = transpose_run, .views = true};
