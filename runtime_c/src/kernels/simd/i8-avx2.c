/* AVX2: products of 16 bits. */
#define ERT_VECTOR_BYTES 32
#define ERT_I8_DENSE     ert_i8_dense_avx2
#include "kernels/simd/i8-dense.h"
