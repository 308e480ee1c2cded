/* AVX-512 with VNNI: products of bytes. */
#define ERT_VECTOR_BYTES 64
#define ERT_I8           ert_i8_vnni
#define ERT_I8_DOT       1
#include "kernels/simd/i8-body.h"
