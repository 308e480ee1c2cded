/* Advanced SIMD of AArch64: products of 16 bits. */
#define ERT_VECTOR_BYTES 16
#define ERT_I8           ert_i8_neon
#include "kernels/simd/i8-body.h"
