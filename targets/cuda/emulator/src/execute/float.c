/* Arithmetic of 32- and 64-bit floats. Approximations are computed to full precision. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "execute/lanes.h"

static inline float flush32(float x) { return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x; }
static inline float saturate32(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; } /* NaN gives 0 */
static inline double flush64(double x) { return x; }
static inline double saturate64(double x) { return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0; }

EMU_EXTREMES(float, least32, greatest32)
EMU_EXTREMES(double, least64, greatest64)

/* All lanes of one operation: plain, or with flushed subnormals and saturation. */
#define OPERATION(operation, bits, type, expression)       \
  case operation: {                                        \
    const type *a = s[0], *b = s[1], *c = s[2];            \
    type *r = d;                                           \
    if (plain) {                                           \
      EACH {                                               \
        type x = a[i], y = b ? b[i] : 0, z = c ? c[i] : 0; \
        (void)y, (void)z;                                  \
        r[i] = expression;                                 \
      }                                                    \
    } else {                                               \
      EACH {                                               \
        type x = ftz ? flush##bits(a[i]) : a[i];           \
        type y = b ? (ftz ? flush##bits(b[i]) : b[i]) : 0; \
        type z = c ? (ftz ? flush##bits(c[i]) : c[i]) : 0; \
        (void)y, (void)z;                                  \
        type value = expression;                           \
        value = ftz ? flush##bits(value) : value;          \
        r[i] = sat ? saturate##bits(value) : value;        \
      }                                                    \
    }                                                      \
    return;                                                \
  }

/* A rounding other than to nearest: the host's is changed around each operation. */
static void rounded(const ptx_instruction *p, void *d, const void *const s[4]) {
  static const int modes[] = {FE_TONEAREST, FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
  bool wide = p->code % 16 == T_F64, ftz = p->flags & FLAG_FTZ, sat = p->flags & FLAG_SAT;
  fesetround(modes[p->rounding]);
  for (unsigned i = 0; i < EMU_WARP; i++) {
    volatile double x[3] = {0, 0, 0}, value = 0;
    volatile float v[3] = {0, 0, 0}, single = 0;
    for (unsigned n = 0; n < p->sources && n < 3; n++) {
      if (wide) {
        x[n] = ((const double *)s[n])[i];
      } else {
        float source = ((const float *)s[n])[i];
        v[n] = ftz ? flush32(source) : source;
      }
    }
    switch (p->code / 16) {
      case OP_ADD:
        value = x[0] + x[1], single = v[0] + v[1];
        break;
      case OP_SUB:
        value = x[0] - x[1], single = v[0] - v[1];
        break;
      case OP_MUL:
        value = x[0] * x[1], single = v[0] * v[1];
        break;
      case OP_DIV:
        value = x[0] / x[1], single = v[0] / v[1];
        break;
      case OP_FMA:
        value = fma(x[0], x[1], x[2]), single = fmaf(v[0], v[1], v[2]);
        break;
      case OP_SQRT:
        value = sqrt(x[0]), single = sqrtf(v[0]);
        break;
      case OP_RCP:
        value = 1.0 / x[0], single = 1.0f / v[0];
        break;
      default:
        break;
    }
    if (wide) {
      ((double *)d)[i] = sat ? saturate64(value) : value;
    } else {
      float r = ftz ? flush32(single) : single;
      ((float *)d)[i] = sat ? saturate32(r) : r;
    }
  }
  fesetround(FE_TONEAREST);
}

EMU_CLONES static void float32(const ptx_instruction *p, void *d, const void *const s[4]) {
  bool ftz = p->flags & FLAG_FTZ, sat = p->flags & FLAG_SAT, nan = p->flags & FLAG_NAN, plain = !ftz && !sat;
  switch (p->code / 16) {
    OPERATION(OP_FMA, 32, float, __builtin_fmaf(x, y, z))
    OPERATION(OP_ADD, 32, float, x + y)
    OPERATION(OP_SUB, 32, float, x - y)
    OPERATION(OP_MUL, 32, float, x *y)
    OPERATION(OP_DIV, 32, float, x / y)
    OPERATION(OP_MIN, 32, float, nan && (x != x || y != y) ? x + y : least32(x, y))
    OPERATION(OP_MAX, 32, float, nan && (x != x || y != y) ? x + y : greatest32(x, y))
    OPERATION(OP_ABS, 32, float, fabsf(x))
    OPERATION(OP_NEG, 32, float, -x)
    OPERATION(OP_SQRT, 32, float, __builtin_sqrtf(x))
    OPERATION(OP_RCP, 32, float, 1.0f / x)
    OPERATION(OP_RSQRT, 32, float, 1.0f / __builtin_sqrtf(x))
    OPERATION(OP_EX2, 32, float, exp2f(x))
    OPERATION(OP_LG2, 32, float, log2f(x))
    OPERATION(OP_SIN, 32, float, sinf(x))
    OPERATION(OP_COS, 32, float, cosf(x))
    OPERATION(OP_TANH, 32, float, tanhf(x))
    OPERATION(OP_COPYSIGN, 32, float, copysignf(y, x))
    default:
      return;
  }
}

EMU_CLONES static void float64(const ptx_instruction *p, void *d, const void *const s[4]) {
  bool ftz = false, sat = p->flags & FLAG_SAT, plain = !sat;
  switch (p->code / 16) {
    OPERATION(OP_FMA, 64, double, __builtin_fma(x, y, z))
    OPERATION(OP_ADD, 64, double, x + y)
    OPERATION(OP_SUB, 64, double, x - y)
    OPERATION(OP_MUL, 64, double, x *y)
    OPERATION(OP_DIV, 64, double, x / y)
    OPERATION(OP_MIN, 64, double, least64(x, y))
    OPERATION(OP_MAX, 64, double, greatest64(x, y))
    OPERATION(OP_ABS, 64, double, fabs(x))
    OPERATION(OP_NEG, 64, double, -x)
    OPERATION(OP_SQRT, 64, double, __builtin_sqrt(x))
    OPERATION(OP_RCP, 64, double, 1.0 / x)
    OPERATION(OP_RSQRT, 64, double, 1.0 / __builtin_sqrt(x))
    OPERATION(OP_COPYSIGN, 64, double, copysign(y, x))
    default:
      return;
  }
}

void emu_float(const ptx_instruction *p, void *d, void *q, const void *const s[4]) {
  (void)q;
  if (p->rounding > ROUND_NEAREST)
    rounded(p, d, s);
  else if (p->code % 16 == T_F32)
    float32(p, d, s);
  else
    float64(p, d, s);
}
