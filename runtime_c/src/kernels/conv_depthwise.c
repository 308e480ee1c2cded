/* conv_depthwise: one filter a channel, with bias, residual and activation, over planar or blocked activations. */
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/partition.h"
#include "kernels/simd/simd.h"

/* A task computes, for one image, block of 16 channels and output depth, a band of rows. Planar inputs and outputs of a band
 * pass through scratch in blocks: [planes][in_rows][width][16], then [rows][out width][16]. */
typedef struct depthwise_state {
  ert_conv_geometry g;
  ert_finish finish;
  const ert_simd *simd;
  ert_strides x, y, residual;
  bool gather;
  bool store_tile; /* y is planar, or residual lies otherwise */
  int64_t channels, blocks, bands;
  int64_t in_rows; /* that the largest band reads */
  int64_t in_size; /* floats of its inputs in scratch; 0 if none */
} depthwise_state;

enum { BAND_FLOATS = 64 * 1024 }; /* inputs of a band in scratch */

static edgert_status depthwise_prove(const ert_prepare *p, ert_conv_geometry *g) {
  ERT_TRY(ert_expect_operands(p, 2, 4, 1, 1));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *w = step->in[1], *y = step->out[0];
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, w, ERT_LAYOUT_DEPTH16));
  if (w->rank + 1 != x->rank) return ert_reject(p, "rank of the weights", "one less than the input's", "%d", w->rank);
  ERT_TRY(ert_expect_activations(p, x));
  ERT_TRY(ert_expect_activations(p, y));
  ERT_TRY(ert_conv_geometry_read(p, x, y, w->shape + 1, false, g));
  int64_t shape[ERT_MAX_RANK] = {x->shape[1]};
  for (int i = 1; i < w->rank; i++) shape[i] = w->shape[i];
  ERT_TRY(ert_expect_shape(p, w, w->rank, shape));
  ERT_TRY(ert_expect_whole(p, w, 1));
  if (g->groups != x->shape[1] || g->filters != 1)
    return ert_reject(p, "group", "as many as input and output channels", "%lld", (long long)g->groups);
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_layout(p, bias, ERT_LAYOUT_BLOCK16));
    ERT_TRY(ert_expect_shape(p, bias, 1, shape));
  }
  return residual ? ert_expect_same_type(p, y, residual) : EDGERT_OK;
}

/* Input rows that `rows` neighbouring output rows may read. */
static int64_t rows_read(const ert_conv_geometry *g, int64_t rows) {
  return ert_min64((rows - 1) * g->stride[1] + g->reach[1] + 1, g->in[1]);
}

static int64_t bands_of(const depthwise_state *s, uint32_t workers) {
  const ert_conv_geometry *g = &s->g;
  const int64_t tasks = g->batch * s->blocks * g->out[0];
  const double products = (double)tasks * 16 * (double)(g->out[1] * g->out[2]) * (double)ert_volume(g->kernel);
  int64_t bands = ert_min64(ert_pieces(tasks, products, workers), g->out[1]);
  while (s->gather && bands < g->out[1]) {
    const int64_t rows = rows_read(g, ert_ceil_divide(g->out[1], bands));
    if (rows * g->in[2] * 16 <= BAND_FLOATS / g->kernel[0]) break;
    bands = ert_min64(bands * 2, g->out[1]);
  }
  return bands;
}

static edgert_status depthwise_prepare(ert_prepare *p) {
  ert_allow_in_place(p, 3);
  ert_conv_geometry g;
  ert_activation activation;
  ERT_TRY(depthwise_prove(p, &g));
  ERT_TRY(ert_activation_read(p, &activation));
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  depthwise_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->g = g;
  s->finish = ert_finish_of(activation);
  s->simd = p->simd;
  ert_strides_of_step(p->step, 3, &s->x, &s->y, &s->residual);
  s->gather = !s->x.blocked;
  s->store_tile = !s->y.blocked || s->residual.row != s->y.row;
  s->channels = g.groups;
  s->blocks = (s->channels + 15) / 16;
  s->bands = bands_of(s, p->workers);
  const int64_t rows = (g.out[1] + s->bands - 1) / s->bands;
  s->in_rows = rows_read(&g, rows);
  size_t in_size = 0;
  if (s->gather && (!ert_multiply((size_t)(s->in_rows * g.in[2]), 16, &in_size) ||
                    !ert_multiply(in_size, (size_t)g.kernel[0], &in_size) || in_size > SIZE_MAX / 64))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  s->in_size = (int64_t)in_size;
  p->step->scratch_bytes = (in_size + (size_t)(s->store_tile ? rows * g.out[2] * 16 : 0)) * sizeof(float);
  p->step->tasks = g.batch * s->blocks * g.out[0] * s->bands;
  return EDGERT_OK;
}

/* Copies the input rows [first, first + rows) of each depth tap inside to scratch. */
static void gather_rows(const depthwise_state *s, const float *x, const ert_conv_band *t, int64_t depth, int64_t planes,
                        int64_t first, int64_t rows, float *to) {
  const ert_conv_geometry *g = &s->g;
  const int64_t count = ert_min64(16, s->channels - t->block * 16);
  if (count < 16) memset(to, 0, (size_t)s->in_size * sizeof(float));
  for (int64_t i = 0; i < planes; i++) {
    const float *from = x + ert_position(&s->x, t->image, depth + i * g->dilation[0], first, 0);
    const ert_blocks blocks = {to + i * s->in_rows * g->in[2] * 16, 0, 16};
    ert_gather_channels(from, &s->x, t->block * 16, count, rows, g->in[2], blocks);
  }
}

static void run_task(const ert_step *step, const ert_conv_band *t, float *scratch) {
  const depthwise_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  const int64_t count = ert_min64(16, s->channels - t->block * 16);
  const float *x = step->in[0]->data, *r = residual ? residual->data : NULL;
  float *y = (float *)step->out[0]->data + ert_position(&s->y, t->image, t->depth, t->row, 0);
  if (r) r += ert_position(&s->residual, t->image, t->depth, t->row, 0);
  int64_t tap, tap_end;
  const int64_t depth = t->depth * g->stride[0] - g->pad[0];
  ert_taps_inside(depth, g->dilation[0], g->kernel[0], g->in[0], &tap, &tap_end);
  const int64_t first = ert_clamp64(t->row * g->stride[1] - g->pad[1], 0, g->in[1]);
  const int64_t last =
      ert_clamp64((t->row + t->rows - 1) * g->stride[1] - g->pad[1] + g->reach[1] + 1, first, g->in[1]);
  const int64_t inside = depth + tap * g->dilation[0];
  ert_depthwise d = {
      .x_row = s->gather ? g->in[2] * 16 : s->x.row,
      .y_row = s->store_tile ? g->out[2] * 16 : s->y.row,
      .planes = tap_end - tap,
      .w = (const float *)step->in[1]->data + (t->block * g->kernel[0] + tap) * g->kernel[1] * g->kernel[2] * 16,
      .bias = bias ? (const float *)bias->data + t->block * 16 : NULL,
      .kernel_h = g->kernel[1],
      .kernel_w = g->kernel[2],
      .stride_h = g->stride[1],
      .stride_w = g->stride[2],
      .dilation_h = g->dilation[1],
      .dilation_w = g->dilation[2],
      .pad_h = g->pad[1],
      .pad_w = g->pad[2],
      .height = g->in[1],
      .width = g->in[2],
      .out_width = g->out[2],
      .first = t->row,
      .rows = t->rows,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
  };
  if (s->gather) {
    gather_rows(s, x, t, inside, d.planes, first, last - first, scratch);
    d.x = scratch;
    d.x_first = first;
    d.x_plane = s->in_rows * d.x_row;
  } else {
    d.x = x + ert_position(&s->x, t->image, d.planes ? inside : 0, 0, 0) + t->block * s->x.channel;
    d.x_plane = g->dilation[0] * s->x.plane;
  }
  const ert_blocks tile = {scratch + s->in_size, 0, 16};
  d.y = s->store_tile ? tile.data : y + t->block * s->y.channel;
  if (r && s->store_tile) ert_gather_channels(r, &s->residual, t->block * 16, count, t->rows, g->out[2], tile);
  if (r) d.residual = s->store_tile ? tile.data : r + t->block * s->residual.channel;
  s->simd->depthwise(&d);
  ert_finish_stored(&s->finish, s->simd, d.y, 1, 0, (size_t)d.rows, d.y_row, (size_t)d.out_width * 16);
  if (s->store_tile) ert_scatter_channels(tile, y, &s->y, t->block * 16, count, t->rows, g->out[2]);
}

static void depthwise_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const depthwise_state *s = step->state;
  for (int64_t i = begin; i < end; i++) {
    const ert_conv_band t = ert_conv_band_at(&s->g, s->blocks, s->bands, i);
    run_task(step, &t, scratch);
  }
}

extern const ert_kernel ert_kernel_conv_depthwise;
const ert_kernel ert_kernel_conv_depthwise = {
    .name = "conv_depthwise", .prepare = depthwise_prepare, .run = depthwise_run, .views = true};
