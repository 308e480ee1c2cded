/* 16-bit floats, number by number. */
#ifndef ERT_KERNELS_SIMD_HALF_H
#define ERT_KERNELS_SIMD_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ert_float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* A finite f16: exponents are brought into place by a product, which is exact for subnormal numbers too. */
static inline float ert_float_of_f16(uint16_t h) {
  const float magnitude = ert_float_of_bits((h & 0x7fffu) << 13) * 0x1p112f;
  return h >> 15 ? -magnitude : magnitude;
}

static inline float ert_float_of_bf16(uint16_t h) { return ert_float_of_bits((uint32_t)h << 16); }

/* The nearest bf16, ties to even; NaN stays NaN. */
static inline float ert_round_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return x == x ? ert_float_of_bits((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u) : x;
}

#endif
