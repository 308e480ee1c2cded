/* AVX2 and FMA: vectors of eight floats. */
#define ERT_ISA          avx2
#define ERT_VECTOR_BYTES 32
#include "kernels/simd/body.h"
