/* x86-64 baseline: products of 16 bits. */
#define ERT_VECTOR_BYTES 16
#define ERT_I8           ert_i8_sse2
#include "kernels/simd/i8-body.h"
