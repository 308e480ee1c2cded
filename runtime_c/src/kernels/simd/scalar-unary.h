/* The pointwise functions of float32 by libm: what f32-unary.h is compared with. */
#include <math.h>
#include <string.h>

#include "kernels/unary_kinds.h"

static float unary_scalar(int kind, float alpha, float beta, float x) {
  switch (kind) {
    case ERT_UNARY_IDENTITY:
      return x;
    case ERT_UNARY_ABS:
      return fabsf(x);
    case ERT_UNARY_NEG:
      return -x;
    case ERT_UNARY_SIGN:
      return x > 0 ? 1.0f : x < 0 ? -1.0f : x;
    case ERT_UNARY_CEIL:
      return ceilf(x);
    case ERT_UNARY_FLOOR:
      return floorf(x);
    case ERT_UNARY_ROUND:
      return rintf(x);
    case ERT_UNARY_EXP:
      return expf(x);
    case ERT_UNARY_LOG:
      return logf(x);
    case ERT_UNARY_SQRT:
      return sqrtf(x);
    case ERT_UNARY_RECIPROCAL:
      return 1.0f / x;
    case ERT_UNARY_TANH:
      return tanhf(x);
    case ERT_UNARY_ERF:
      return erff(x);
    case ERT_UNARY_RELU:
      return x < 0 ? 0 : x;
    case ERT_UNARY_LEAKY_RELU:
      return x < 0 ? x * alpha : x;
    case ERT_UNARY_ELU:
      return x < 0 ? alpha * expm1f(x) : x;
    case ERT_UNARY_SELU:
      return beta * (x > 0 ? x : alpha * expm1f(x));
    case ERT_UNARY_CELU: {
      float low = alpha * expm1f(x / alpha);
      return (x < 0 ? 0 : x) + (low > 0 ? 0 : low);
    }
    case ERT_UNARY_THRESHOLDED_RELU:
      return x > alpha ? x : 0;
    case ERT_UNARY_HARD_SIGMOID:
    case ERT_UNARY_HARD_SWISH: {
      float gate = x * alpha + beta;
      gate = gate < 0 ? 0 : gate > 1 ? 1 : gate;
      return kind == ERT_UNARY_HARD_SWISH ? x * gate : gate;
    }
    case ERT_UNARY_SIGMOID:
      return x < 0 ? expf(x) / (1.0f + expf(x)) : 1.0f / (1.0f + expf(-x));
    case ERT_UNARY_SILU:
      return x * unary_scalar(ERT_UNARY_SIGMOID, 0, 0, x * alpha);
    case ERT_UNARY_SOFTPLUS:
      return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x)));
    case ERT_UNARY_SOFTSIGN:
      return x / (1.0f + fabsf(x));
    case ERT_UNARY_MISH:
      return x * tanhf(unary_scalar(ERT_UNARY_SOFTPLUS, 0, 0, x));
    case ERT_UNARY_GELU:
      return 0.5f * x * (1.0f + erff(x * 0.707106781f));
    case ERT_UNARY_GELU_TANH:
      return 0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
    case ERT_UNARY_CLIP: {
      float high = x < alpha ? alpha : x;
      return high > beta ? beta : high;
    }
    case ERT_UNARY_SHRINK:
      return x < -alpha ? x + beta : x > alpha ? x - beta : 0;
    default:
      return ert_unary_libm(kind)(x);
  }
}

static void scalar_unary(int kind, float alpha, float beta, const float *x, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = unary_scalar(kind, alpha, beta, x[i]);
}
