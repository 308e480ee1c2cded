/* AVX2 with AVX-VNNI: products of bytes. */
#define ERT_VECTOR_BYTES 32
#define ERT_I8           ert_i8_avxvnni
#define ERT_I8_DOT       1
#include "kernels/simd/i8-body.h"
