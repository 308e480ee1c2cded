/* What convolutions and matrix products of bytes share: their constants, and how sums become bytes. */
#include "kernels/quantized.h"

#include "kernels/tensor.h"

edgert_status ert_quantized_expect(const ert_prepare *p, int64_t groups, int64_t filters, int64_t quads) {
  const ert_tensor *w = p->step->in[1], *bias = p->step->in[2], *scale = p->step->in[3];
  const int64_t shape[3] = {groups, filters, quads};
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_I32));
  ERT_TRY(ert_expect_layout(p, w, ERT_LAYOUT_WEIGHT16));
  ERT_TRY(ert_expect_shape(p, w, 3, shape));
  ERT_TRY(ert_expect_dtype(p, bias, EDGERT_I32));
  ERT_TRY(ert_expect_layout(p, bias, ERT_LAYOUT_BLOCK16));
  ERT_TRY(ert_expect_shape(p, bias, 2, shape));
  ERT_TRY(ert_expect_dtype(p, scale, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, scale, ERT_LAYOUT_BLOCK16));
  return ert_expect_shape(p, scale, 2, shape);
}

/* Levels from lo to hi around a zero point, all of them bytes. */
static edgert_status check_levels(const ert_prepare *p, int64_t lo, int64_t hi) {
  return lo <= hi ? EDGERT_OK : ert_reject(p, "limits of bytes", "lo no larger than hi", "%d > %d", (int)lo, (int)hi);
}

edgert_status ert_quantized_finish(const ert_prepare *p, bool residual, ert_i8_finish *out) {
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
