/* The values of a stream of non-zeros, as floats. */
#ifndef ERT_KERNELS_SIMD_SPARSE_VALUES_H
#define ERT_KERNELS_SIMD_SPARSE_VALUES_H

#include <string.h>

#include "kernels/simd/half.h"
#include "kernels/simd/simd.h"

static inline __attribute__((always_inline)) float sparse_value(const char *value, ert_weights weights) {
  float number;
  uint16_t half;
  if (weights == ERT_WEIGHTS_F32) return memcpy(&number, value, sizeof number), number;
  memcpy(&half, value, sizeof half);
  return weights == ERT_WEIGHTS_F16 ? ert_float_of_f16(half) : ert_float_of_bf16(half);
}

#endif
