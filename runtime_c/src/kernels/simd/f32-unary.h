/* Pointwise functions of float32 vectors; kinds and parameters as in unary_kinds.h. */
#include "kernels/simd/vec-math.h"
#include "kernels/unary_kinds.h"

ERT_INLINE vf unary_sign(vf x) {
  vf one = (vf)((vi)vsplat(1.0f) & ((x > vzero()) | (x < vzero())));
  return vselect(x == x, vcopysign(one, x), x);
}

ERT_INLINE vf unary_clip(vf x, float lo, float hi) { return vmin(vsplat(hi), vmax(vsplat(lo), x)); }

ERT_INLINE vf unary_mish(vf x) { /* x tanh(log(1 + w)) with w = e^x; beyond 20 the tangent is 1 */
  vf w = vexp(vmin(vsplat(20.0f), x));
  vf n = w * (w + 2.0f);
  return x * (n / (n + 2.0f));
}

ERT_INLINE vf unary_softplus(vf x) { return vmax(vzero(), x) + vlog1p_unit(vexp(-vabs(x))); }

ERT_INLINE vf unary_gelu(vf x) { /* x times the share of a normal distribution below x */
  vf t = vabs(x);
  vf q = t * -1.5775125e-6f + 2.2851670e-5f; /* log of the share above t on [0, 6]; falls beyond */
  q = q * t - 1.0901725e-4f;
  q = q * t - 1.4034791e-4f;
  q = q * t + 4.9509993e-3f;
  q = q * t - 3.6422413e-2f;
  q = q * t - 3.1828840e-1f;
  q = q * t - 7.9788655e-1f;
  q = q * t - 6.9314710e-1f;
  vf above = vexp_near(vmax(vsplat(-104.0f), q));
  return x * vselect(x < vzero(), above, 1.0f - above);
}

ERT_INLINE vf unary_gelu_tanh(vf x) { /* (1 + tanh(u)) / 2 = sigmoid(2 u) */
  return x * vsigmoid(x * (x * x * 7.13548163e-2f + 1.59576912f));
}

ERT_INLINE vf unary_celu(vf x, float alpha) { return vmax(vzero(), x) + vmin(vzero(), alpha * vexpm1(x / alpha)); }

ERT_INLINE vf unary_shrink(vf x, float alpha, float beta) {
  vf positive = vselect(x > vsplat(alpha), x - beta, vzero());
  return vselect(x < vsplat(-alpha), x + beta, positive);
}

#define UNARY_LOOP(expression)                 \
  {                                            \
    size_t i = 0;                              \
    for (; i + VL <= n; i += VL) {             \
      vf v = vload(x + i);                     \
      vstore(y + i, (expression));             \
    }                                          \
    if (i < n) {                               \
      vf v = vload_part(x + i, n - i);         \
      vstore_part(y + i, (expression), n - i); \
    }                                          \
    return;                                    \
  }

static void f32_unary(int kind, float alpha, float beta, const float *x, float *y, size_t n) {
  switch (kind) {
    case ERT_UNARY_IDENTITY:
      if (x != y) memmove(y, x, n * sizeof *x);
      return;
    case ERT_UNARY_ABS:
      UNARY_LOOP(vabs(v))
    case ERT_UNARY_NEG:
      UNARY_LOOP(-v)
    case ERT_UNARY_SIGN:
      UNARY_LOOP(unary_sign(v))
    case ERT_UNARY_CEIL:
      UNARY_LOOP(vceil(v))
    case ERT_UNARY_FLOOR:
      UNARY_LOOP(vfloor(v))
    case ERT_UNARY_ROUND:
      UNARY_LOOP(vround(v))
    case ERT_UNARY_EXP:
      UNARY_LOOP(vexp(v))
    case ERT_UNARY_LOG:
      UNARY_LOOP(vlog(v))
    case ERT_UNARY_SQRT:
      UNARY_LOOP(vsqrt(v))
    case ERT_UNARY_RECIPROCAL:
      UNARY_LOOP(1.0f / v)
    case ERT_UNARY_SIN:
      UNARY_LOOP(vsin(v))
    case ERT_UNARY_COS:
      UNARY_LOOP(vcos(v))
    case ERT_UNARY_TANH:
      UNARY_LOOP(vtanh(v))
    case ERT_UNARY_ERF:
      UNARY_LOOP(verf(v))
    case ERT_UNARY_RELU:
      UNARY_LOOP(vmax(vzero(), v))
    case ERT_UNARY_LEAKY_RELU:
      UNARY_LOOP(vselect(v < vzero(), v * alpha, v))
    case ERT_UNARY_ELU:
      UNARY_LOOP(vselect(v < vzero(), alpha * vexpm1(v), v))
    case ERT_UNARY_SELU:
      UNARY_LOOP(beta * vselect(v > vzero(), v, alpha * vexpm1(v)))
    case ERT_UNARY_CELU:
      UNARY_LOOP(unary_celu(v, alpha))
    case ERT_UNARY_THRESHOLDED_RELU:
      UNARY_LOOP(vselect(v > vsplat(alpha), v, vzero()))
    case ERT_UNARY_HARD_SIGMOID:
      UNARY_LOOP(unary_clip(v * alpha + beta, 0.0f, 1.0f))
    case ERT_UNARY_HARD_SWISH:
      UNARY_LOOP(v * unary_clip(v * alpha + beta, 0.0f, 1.0f))
    case ERT_UNARY_SIGMOID:
      UNARY_LOOP(vsigmoid(v))
    case ERT_UNARY_SILU:
      UNARY_LOOP(v * vsigmoid(v * alpha))
    case ERT_UNARY_SOFTPLUS:
      UNARY_LOOP(unary_softplus(v))
    case ERT_UNARY_SOFTSIGN:
      UNARY_LOOP(v / (vabs(v) + 1.0f))
    case ERT_UNARY_MISH:
      UNARY_LOOP(unary_mish(v))
    case ERT_UNARY_GELU:
      UNARY_LOOP(unary_gelu(v))
    case ERT_UNARY_GELU_TANH:
      UNARY_LOOP(unary_gelu_tanh(v))
    case ERT_UNARY_CLIP:
      UNARY_LOOP(unary_clip(v, alpha, beta))
    case ERT_UNARY_SHRINK:
      UNARY_LOOP(unary_shrink(v, alpha, beta))
    default: {
      float (*function)(float) = ert_unary_libm(kind);
      for (size_t i = 0; i < n; i++) y[i] = function(x[i]);
    }
  }
}
#undef UNARY_LOOP
