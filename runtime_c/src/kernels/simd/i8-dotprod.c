/* AArch64 with dot products: of bytes with the same sign. */
#define ERT_VECTOR_BYTES 16
#define ERT_I8           ert_i8_dotprod
#define ERT_I8_DOT       1
#define ERT_I8_SIGNED    1
#include "kernels/simd/i8-body.h"
