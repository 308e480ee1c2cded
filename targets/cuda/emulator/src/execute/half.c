/* Arithmetic of halves, alone or in pairs: a row of pairs is one of 64 halves. Each operation rounds once. */
#include <math.h>
#include <string.h>

#include "execute/lanes.h"

float emu_half_to_float(uint16_t half) {
  _Float16 h;
  memcpy(&h, &half, sizeof h);
  return (float)h;
}

uint16_t emu_float_to_half(double value, ptx_rounding rounding) {
  _Float16 h = (_Float16)value;
  uint16_t bits;
  memcpy(&bits, &h, sizeof bits);
  if (rounding <= ROUND_NEAREST || rounding == ROUND_AWAY || value != value) return bits;
  double got = (double)(float)h;
  bool toward_zero = rounding == ROUND_ZERO || (rounding == ROUND_DOWN) == (value > 0);
  bool beyond = fabs(got) > fabs(value), below = fabs(got) < fabs(value);
  if (toward_zero && beyond) return (uint16_t)(bits - 1); /* the next one nearer to zero; from infinity the largest */
  if (!toward_zero && below) return (uint16_t)(bits + 1);
  return bits;
}

/* a * b + c as a float of which rounding to a half is rounding the exact result: the product is exact, and the sum is
 * rounded to odd. */
static inline float fused(float a, float b, float c) {
  float p = a * b, t = p + c, back = t - p, error = (p - (t - back)) + (c - back);
  int32_t bits;
  memcpy(&bits, &t, sizeof bits);
  bool inexact = error != 0.0f && fabsf(t) < INFINITY && !(bits & 1);
  bits += inexact ? ((error > 0.0f) == (t > 0.0f) ? 1 : -1) : 0;
  memcpy(&t, &bits, sizeof bits);
  return t;
}

static inline float flush(float x) { return fabsf(x) < 0x1p-14f ? copysignf(0.0f, x) : x; }

EMU_EXTREMES(float, least, greatest)

#define OPERATION(operation, expression)                                               \
  case operation:                                                                      \
    INDEPENDENT for (unsigned i = 0; i < count; i++) {                                 \
      float x = (float)a[i], y = b ? (float)b[i] : 0.0f, z = c ? (float)c[i] : 0.0f;   \
      (void)y, (void)z;                                                                \
      if (ftz) x = flush(x), y = flush(y), z = flush(z);                               \
      float value = expression;                                                        \
      if (sat) value = value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;            \
      if (relu) value = value > 0.0f ? value : value != value ? value : 0.0f;          \
      _Float16 h = (_Float16)value;                                                    \
      r[i] = ftz && fabsf((float)h) < 0x1p-14f ? (_Float16)copysignf(0.0f, value) : h; \
    }                                                                                  \
    return;

EMU_CLONES void emu_half(const ptx_instruction *p, void *d, void *q, const void *const s[4]) {
  (void)q;
  const _Float16 *a = s[0], *b = s[1], *c = s[2];
  _Float16 *r = d;
  unsigned count = p->code % 16 == T_F16X2 ? 2 * EMU_WARP : EMU_WARP;
  bool ftz = p->flags & FLAG_FTZ, sat = p->flags & FLAG_SAT, relu = p->flags & FLAG_RELU, nan = p->flags & FLAG_NAN;
  switch (p->code / 16) {
    OPERATION(OP_FMA, fused(x, y, z))
    OPERATION(OP_ADD, x + y)
    OPERATION(OP_SUB, x - y)
    OPERATION(OP_MUL, x * y)
    OPERATION(OP_ABS, fabsf(x))
    OPERATION(OP_NEG, -x)
    OPERATION(OP_MIN, nan && (x != x || y != y) ? x + y : least(x, y))
    OPERATION(OP_MAX, nan && (x != x || y != y) ? x + y : greatest(x, y))
    OPERATION(OP_EX2, exp2f(x))
    OPERATION(OP_TANH, tanhf(x))
    default:
      return;
  }
}
