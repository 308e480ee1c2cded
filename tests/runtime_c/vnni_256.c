/* The inner loops of i8-avxvnni.c with AVX-512's encoding of their product, which other machines have. */
#define ERT_VECTOR_BYTES 32
#define ERT_I8           test_i8_vnni_256
#define ERT_I8_DOT       1
#include "kernels/simd/i8-body.h"
