/* conv_im2col_caffe, conv_im2col_nhwc: convolution as a matrix product over patches, the measured baselines of `conv`. */
#include "base/checked.h"
#include "kernels/conv_geometry.h"
#include "kernels/gemm.h"
#include "kernels/im2col.h"
#include "kernels/tensor.h"

/* A task is one group of one image: y[filters][positions] = w[filters][depth] . patches. */
typedef struct im2col_state {
  ert_conv_geometry g;
  ert_finish finish;
  const ert_simd *simd;
  int64_t depth, positions, columns; /* columns: patches packed at a time */
  size_t padded;                     /* floats of the channels-last image; 0 for patches as columns */
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

static edgert_status prepare(ert_prepare *p, bool as_rows) {
  ert_conv_geometry g;
  ERT_TRY(prove(p, as_rows, &g));
  ert_allow_in_place(p, 3);
  p->step->tasks = 0;
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  im2col_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->g = g;
  s->simd = p->simd;
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  s->finish = ert_finish_of(activation);
  s->positions = ert_volume(g.out);
  size_t patches, product;
  const size_t depth = (size_t)ert_extent(p->step->in[1], 1, p->step->in[1]->rank);
  s->columns = ert_gemm_group(g.filters, (int64_t)depth, s->positions);
  if (!ert_multiply(depth, (size_t)s->positions, &patches) || patches > SIZE_MAX / 16 ||
      (as_rows && !ert_im2col_padded(&g, &s->padded)) ||
      !ert_gemm_scratch(g.filters, (int64_t)depth, s->columns, &product))
    return ert_reject(p, "patches of one image", "fewer bytes than memory can have", "more");
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)s->padded, (double)g.filters * (double)patches));
  s->depth = (int64_t)depth;
  p->step->scratch_bytes = (patches + s->padded + product) * sizeof(float);
  p->step->tasks = g.batch * g.groups;
  return EDGERT_OK;
}

static edgert_status prepare_columns(ert_prepare *p) { return prepare(p, false); }
static edgert_status prepare_rows(ert_prepare *p) { return prepare(p, true); }

/* What the product is added to: residual and bias. */
static void start_outputs(const im2col_state *s, const float *bias, const float *residual, float *y) {
  for (int64_t k = 0; k < s->g.filters; k++)
    for (int64_t i = 0; i < s->positions; i++, y++) *y = (bias ? bias[k] : 0.0f) + (residual ? *residual++ : 0.0f);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const im2col_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  float *patches = scratch, *padded = patches + s->depth * s->positions, *product = padded + s->padded;
  for (int64_t task = begin; task < end; task++) {
    const int64_t group = task % g->groups, filter = group * g->filters, out = task * g->filters * s->positions;
    const float *x = (const float *)step->in[0]->data + task * g->channels * ert_volume(g->in);
    float *y = (float *)step->out[0]->data + out;
    if (s->padded)
      ert_im2col_rows(g, x, padded, patches);
    else
      ert_im2col_columns(g, x, patches);
    if (bias || residual)
      start_outputs(s, bias ? (const float *)bias->data + filter : NULL,
                    residual ? (const float *)residual->data + out : NULL, y);
    const ert_gemm product_of = {
        .a = (const float *)step->in[1]->data + filter * s->depth,
        .b = patches,
        .b_pitch = s->padded ? s->depth : s->positions,
        .transposed = s->padded > 0,
        .y = y,
        .y_pitch = s->positions,
        .rows = g->filters,
        .depth = s->depth,
        .columns = s->positions,
        .group = s->columns,
        .add = bias || residual,
    };
    ert_gemm_run(s->simd, &product_of, &s->finish, product);
  }
}

extern const ert_kernel ert_kernel_conv_im2col_caffe, ert_kernel_conv_im2col_nhwc;
const ert_kernel ert_kernel_conv_im2col_caffe = {.name = "conv_im2col_caffe", .prepare = prepare_columns, .run = run};
const ert_kernel ert_kernel_conv_im2col_nhwc = {.name = "conv_im2col_nhwc", .prepare = prepare_rows, .run = run};
