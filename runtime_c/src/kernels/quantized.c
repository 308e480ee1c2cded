/* What convolutions and matrix products of bytes share: their constants, and what becomes of sums. */
#include "kernels/quantized.h"

#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/tensor.h"

edgert_status ert_quantized_geometry(const ert_prepare *p, bool blocked, int64_t most, ert_conv_geometry *out) {
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_U8));
  ERT_TRY(blocked ? ert_expect_layout(p, x, ERT_LAYOUT_BLOCK16) : ert_expect_activations(p, x));
  ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_BLOCK16));
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  const int64_t *kernel;
  ERT_TRY(ert_ints(p, "kernel", x->rank - 2u, 1, most, &kernel));
  return ert_conv_geometry_of(p, x, y, kernel, false, out);
}

edgert_status ert_quantized_weights(const ert_prepare *p, int64_t groups, int64_t filters, int64_t quads) {
  const ert_tensor *w = p->step->in[1];
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_I32));
  ERT_TRY(ert_expect_layout(p, w, ERT_LAYOUT_WEIGHT16));
  return ert_expect_shape(p, w, 3, (const int64_t[]){groups, filters, quads});
}

/* An input with one element an output channel. */
static edgert_status by_channel(const ert_prepare *p, uint32_t input, edgert_dtype dtype, uint32_t rank,
                                const int64_t *channels) {
  const ert_tensor *t = p->step->in[input];
  if (!t) return ert_reject(p, "inputs", "all of them", "without input %u", (unsigned)input);
  ERT_TRY(ert_expect_dtype(p, t, dtype));
  ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_BLOCK16));
  return ert_expect_shape(p, t, rank, channels);
}

/* Levels from lo to hi around a zero point, all of them bytes. */
static edgert_status check_levels(const ert_prepare *p, int64_t lo, int64_t hi) {
  return lo <= hi ? EDGERT_OK : ert_reject(p, "limits of bytes", "lo no larger than hi", "%d > %d", (int)lo, (int)hi);
}

static edgert_status read_levels(const ert_prepare *p, bool residual, ert_i8_finish *out) {
  int64_t zero, lo, hi;
  ERT_TRY(ert_int(p, "y_zero", 0, UINT8_MAX, &zero));
  ERT_TRY(ert_int(p, "lo", 0, UINT8_MAX, &lo));
  ERT_TRY(ert_int(p, "hi", 0, UINT8_MAX, &hi));
  ERT_TRY(check_levels(p, lo, hi));
  *out = (ert_i8_finish){.lo = (float)(lo - zero), .hi = (float)(hi - zero), .zero = (int32_t)zero};
  const ert_attribute *again = ert_attribute_find(p, "sum_scales");
  out->twice = residual || (again && again->n_floats > 0);
  if (!out->twice) return EDGERT_OK;
  const float *scales;
  const int64_t *levels; /* the residual's zero point, the output's, its least and its greatest */
  ERT_TRY(ert_floats(p, "sum_scales", residual ? 2 : 1, &scales));
  ERT_TRY(ert_ints(p, "sum_levels", 4, 0, UINT8_MAX, &levels));
  ERT_TRY(check_levels(p, levels[2], levels[3]));
  out->own = scales[0], out->other = residual ? scales[1] : 0.0f;
  out->other_zero = (int32_t)levels[0], out->sum_zero = (int32_t)levels[1];
  out->sum_lo = (float)(levels[2] - levels[1]), out->sum_hi = (float)(levels[3] - levels[1]);
  return EDGERT_OK;
}

edgert_status ert_quantized_expect(const ert_prepare *p, uint32_t bias, uint32_t rank, const int64_t *channels,
                                   ert_i8_finish *out) {
  const ert_tensor *y = p->step->out[0], *residual = p->step->n_in > bias + 2 ? p->step->in[bias + 2] : NULL;
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_U8));
  ERT_TRY(by_channel(p, bias, EDGERT_I32, rank, channels));
  ERT_TRY(by_channel(p, bias + 1, EDGERT_F32, rank, channels));
  if (residual) ERT_TRY(ert_expect_same_type(p, y, residual));
  return read_levels(p, residual, out);
}

static edgert_status one(const ert_prepare *p, uint32_t input, edgert_dtype dtype) {
  const ert_tensor *t = p->step->in[input];
  if (!t) return ert_reject(p, "inputs", "all of them", "without input %u", (unsigned)input);
  ERT_TRY(ert_expect_dtype(p, t, dtype));
  return ert_expect_shape(p, t, 0, NULL);
}

edgert_status ert_integer_expect(const ert_prepare *p, uint32_t rank, const int64_t *channels, ert_i8_finish *out) {
  const ert_step *step = p->step;
  const bool floats = step->n_in > 4;
  ERT_TRY(ert_expect_dtype(p, step->out[0], floats ? EDGERT_F32 : EDGERT_I32));
  ERT_TRY(by_channel(p, 2, EDGERT_I32, rank, channels));
  ERT_TRY(one(p, 3, EDGERT_U8));
  *out = (ert_i8_finish){.result = ERT_I8_SUMS};
  if (!floats) return EDGERT_OK;
  if (step->n_in != 7) return ert_reject(p, "inputs", "4 or 7", "%u", (unsigned)step->n_in);
  ERT_TRY(one(p, 4, EDGERT_F32));
  ERT_TRY(by_channel(p, 5, EDGERT_F32, rank, channels));
  ERT_TRY(by_channel(p, 6, EDGERT_F32, rank, channels));
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  const ert_finish limits = ert_finish_of(activation);
  if (limits.function) return ert_reject(p, "activation", "relu or clip", "%s", ert_unary_names[activation.kind]);
  *out = (ert_i8_finish){.result = ERT_I8_FLOATS, .lo = limits.lo, .hi = limits.hi};
  return EDGERT_OK;
}

/* Where the channels of a block of a group begin in an input by channel. */
static const void *channels_at(const ert_step *step, uint32_t input, int64_t group, int64_t block) {
  const ert_tensor *t = step->in[input];
  return (const uint8_t *)t->data + (group * ert_stride(t, 0) + block * 16) * 4;
}

ert_channels ert_channels_at(const ert_step *step, bool integer, int64_t group, int64_t block, int64_t blocks,
                             void *scratch) {
  if (!integer)
    return (ert_channels){.bias = channels_at(step, 2, group, block), .scale = channels_at(step, 3, group, block)};
  const int32_t *sums = channels_at(step, 2, group, block);
  const uint32_t zero = *(const uint8_t *)step->in[3]->data;
  int32_t *bias = scratch;
  float *scale = (float *)(void *)(bias + blocks * 16);
  for (int64_t i = 0; i < blocks * 16; i++) bias[i] = (int32_t)(0u - zero * (uint32_t)sums[i]); /* wraps */
  if (step->n_in == 4) return (ert_channels){.bias = bias, .scale = scale, .offset = scale};    /* not read */
  const float *own = channels_at(step, 5, group, block), by = *(const float *)step->in[4]->data;
  for (int64_t i = 0; i < blocks * 16; i++) scale[i] = by * own[i];
  return (ert_channels){.bias = bias, .scale = scale, .offset = channels_at(step, 6, group, block)};
}
