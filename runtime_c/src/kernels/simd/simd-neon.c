/* Advanced SIMD of AArch64: vectors of four floats. */
#define ERT_ISA          neon
#define ERT_VECTOR_BYTES 16
#include "kernels/simd/body.h"
