/* x86-64 baseline: vectors of four floats, no fused multiply-add. */
#define ERT_ISA          sse2
#define ERT_VECTOR_BYTES 16
#include "kernels/simd/body.h"
