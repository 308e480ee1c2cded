/* AVX2: products of 16 bits. */
#define ERT_VECTOR_BYTES 32
#define ERT_I8           ert_i8_avx2
#include "kernels/simd/i8-body.h"
