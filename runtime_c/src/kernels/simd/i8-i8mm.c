/* AArch64 with I8MM: dot products of bytes with different signs. */
#define ERT_VECTOR_BYTES 16
#define ERT_I8           ert_i8_i8mm
#define ERT_I8_DOT       1
#include "kernels/simd/i8-body.h"
