/* The functions of two floats that are libm's. */
#include <math.h>

#include "kernels/binary_kinds.h"

/* The remainder with the sign of the divisor; a zero has it too. */
static float floored(float a, float b) {
  float r = fmodf(a, b);
  if (r == 0) return copysignf(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

float (*ert_binary_libm(int kind))(float a, float b) {
  return kind == ERT_BINARY_POW ? powf : kind == ERT_BINARY_MOD ? floored : fmodf;
}
