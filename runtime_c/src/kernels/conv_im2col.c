/* conv_im2col_caffe, conv_im2col_nhwc: convolution as a matrix product over patches, the measured baselines of `conv`. */
#include "base/checked.h"
#include "kernels/conv_geometry.h"
#include "kernels/gemm.h"
#include "kernels/im2col.h"
#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

/* A task is one group of one image: y[filters][positions] = w[filters][depth] . patches. */
typedef struct im2col_state {
  ert_conv_geometry g;
  ert_finish finish;
  const ert_simd *simd;
  ert_strides x, y, residual;
  ert_strides product; /* of one image as the product is stored: y, or scratch if its positions have gaps */
  ert_walk weights;    /* of a copy of a group's weights and of themselves, if they have gaps */
  int64_t filter;      /* between the weights of neighbouring filters */
  int64_t depth, positions, columns; /* columns: patches packed at a time */
  size_t padded;                     /* floats of the channels-last image; 0 for patches as columns */
  size_t copied_weights, outputs;    /* floats of those copies; 0 if there is none */
} im2col_state;

/* Weights are planar: [filters, channels, kernel] for patches as columns, [filters, kernel, channels] for patches as rows. */
static edgert_status prove(const ert_prepare *p, bool as_rows, ert_conv_geometry *g) {
  ERT_TRY(ert_expect_operands(p, 2, 4, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *w = step->in[1], *y = step->out[0];
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_F32));
  if (w->rank != x->rank) return ert_reject(p, "rank of the weights", "the input's", "%d", w->rank);
  const int first = as_rows ? 1 : 2;
  ERT_TRY(ert_conv_geometry_read(p, x, y, w->shape + first, false, g));
  int64_t shape[ERT_MAX_RANK] = {y->shape[1]};
  shape[as_rows ? w->rank - 1 : 1] = g->channels;
  for (int i = 0; i < w->rank - 2; i++) shape[first + i] = w->shape[first + i];
  ERT_TRY(ert_expect_shape(p, w, w->rank, shape));
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_shape(p, bias, 1, shape));
  }
  return residual ? ert_expect_same_type(p, y, residual) : EDGERT_OK;
}

/* How to read weights and store products that have gaps. */
static void plan_views(const ert_step *step, im2col_state *s) {
  const ert_tensor *w = step->in[1];
  const ert_conv_geometry *g = &s->g;
  s->filter = ert_stride(w, 0);
  s->product = s->y;
  if (!ert_positions_joined(&s->y, g->out)) {
    s->product = (ert_strides){.channel = s->positions, .plane = g->out[1] * g->out[2], .row = g->out[2]};
    s->outputs = (size_t)(g->filters * s->positions);
  }
  if (w->compact) return;
  int64_t next = g->filters * s->depth;
  s->copied_weights = (size_t)next;
  s->weights.operands = 2;
  for (int i = 0; i < w->rank; i++) {
    const int64_t size = i == 0 ? g->filters : w->shape[i];
    if (size > 0) next /= size;
    ert_walk_push(&s->weights, size, (const int64_t[]){next, ert_stride(w, i)});
  }
  ert_walk_merge(&s->weights, 2);
}

static edgert_status prepare(ert_prepare *p, bool as_rows) {
  ert_conv_geometry g;
  ERT_TRY(prove(p, as_rows, &g));
  ert_allow_in_place(p, 3);
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  im2col_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->g = g;
  s->simd = p->simd;
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  s->finish = ert_finish_of(activation);
  s->positions = ert_volume(g.out);
  ert_strides_of_step(p->step, 3, &s->x, &s->y, &s->residual);
  size_t patches, product;
  const size_t depth = (size_t)ert_extent(p->step->in[1], 1, p->step->in[1]->rank);
  s->depth = (int64_t)depth;
  s->columns = ert_gemm_group(g.filters, s->depth, s->positions);
  if (!ert_multiply(depth, (size_t)s->positions, &patches) || patches > SIZE_MAX / 16 ||
      (as_rows && !ert_im2col_padded(&g, &s->padded)) ||
      !ert_gemm_scratch(g.filters, s->depth, s->depth, s->columns, &product))
    return ert_reject(p, "patches of one image", "fewer bytes than memory can have", "more");
  plan_views(p->step, s);
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)s->padded, (double)g.filters * (double)patches));
  p->step->scratch_bytes = (patches + s->padded + s->copied_weights + s->outputs + product) * sizeof(float);
  p->step->tasks = g.batch * g.groups;
  return EDGERT_OK;
}

static edgert_status prepare_columns(ert_prepare *p) { return prepare(p, false); }
static edgert_status prepare_rows(ert_prepare *p) { return prepare(p, true); }

/* What the product is added to: residual and bias. */
static void start_outputs(const im2col_state *s, const float *bias, const float *residual, float *y) {
  const ert_conv_geometry *g = &s->g;
  for (int64_t k = 0; k < g->filters; k++)
    for (int64_t d = 0; d < g->out[0]; d++)
      for (int64_t h = 0; h < g->out[1]; h++) {
        float *to = y + k * s->product.channel + d * s->product.plane + h * s->product.row;
        const float *from =
            residual ? residual + k * s->residual.channel + ert_position(&s->residual, 0, d, h, 0) : NULL;
        for (int64_t w = 0; w < g->out[2]; w++) to[w] = (bias ? bias[k] : 0.0f) + (from ? from[w] : 0.0f);
      }
}

static void store_outputs(const im2col_state *s, const float *product, float *y) {
  const ert_conv_geometry *g = &s->g;
  const size_t width = (size_t)g->out[2] * sizeof(float);
  for (int64_t k = 0; k < g->filters; k++)
    for (int64_t d = 0; d < g->out[0]; d++, product += g->out[1] * g->out[2])
      ert_copy_rows(y + k * s->y.channel + d * s->y.plane, s->y.row * 4, product, g->out[2] * 4, g->out[1], width);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const im2col_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  float *patches = scratch, *padded = patches + s->depth * s->positions, *weights = padded + s->padded;
  float *outputs = weights + s->copied_weights, *product = outputs + s->outputs;
  for (int64_t task = begin; task < end; task++) {
    const int64_t image = task / g->groups, group = task % g->groups, filter = group * g->filters;
    const float *x = (const float *)step->in[0]->data + image * s->x.image + group * g->channels * s->x.channel;
    const float *w = (const float *)step->in[1]->data + filter * s->filter, *r = NULL;
    float *y = (float *)step->out[0]->data + image * s->y.image + filter * s->y.channel;
    float *sums = s->outputs ? outputs : y;
    if (residual) r = (const float *)residual->data + image * s->residual.image + filter * s->residual.channel;
    if (s->padded)
      ert_im2col_rows(g, x, &s->x, padded, patches);
    else
      ert_im2col_columns(g, x, &s->x, patches);
    if (s->copied_weights) ert_walk_copy(&s->weights, sizeof(float), weights, w, 0, s->weights.elements);
    if (bias || r) start_outputs(s, bias ? (const float *)bias->data + filter : NULL, r, sums);
    const ert_gemm product_of = {
        .a = s->copied_weights ? weights : w,
        .a_pitch = s->depth,
        .b = patches,
        .b_pitch = s->padded ? s->depth : s->positions,
        .transposed = s->padded > 0,
        .y = sums,
        .y_pitch = s->product.channel,
        .rows = g->filters,
        .depth = s->depth,
        .columns = s->positions,
        .group = s->columns,
        .add = bias || residual,
    };
    ert_gemm_run(s->simd, &product_of, &s->finish, product);
    if (s->outputs) store_outputs(s, outputs, y);
  }
}

extern const ert_kernel ert_kernel_conv_im2col_caffe, ert_kernel_conv_im2col_nhwc;
const ert_kernel ert_kernel_conv_im2col_caffe = {
    .name = "conv_im2col_caffe", .prepare = prepare_columns, .run = run, .views = true};
const ert_kernel ert_kernel_conv_im2col_nhwc = {
    .name = "conv_im2col_nhwc", .prepare = prepare_rows, .run = run, .views = true};
