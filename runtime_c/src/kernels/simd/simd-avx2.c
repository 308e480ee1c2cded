/* AVX2 and FMA: vectors of eight floats. */
#define ERT_ISA          avx2
#define ERT_VECTOR_BYTES 32
#include "kernels/simd/body.h"

/* With AVX-VNNI the same, but for products of bytes (i8-avxvnni.c). */
#undef ERT_ISA
#define ERT_ISA avx2vnni
#include "kernels/simd/table.h"
