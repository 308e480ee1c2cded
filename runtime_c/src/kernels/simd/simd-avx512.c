/* AVX-512 (F, BW, DQ, VL): vectors of sixteen floats. */
#define ERT_ISA          avx512
#define ERT_VECTOR_BYTES 64
#include "kernels/simd/body.h"
