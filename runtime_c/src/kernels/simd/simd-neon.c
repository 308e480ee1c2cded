/* Advanced SIMD of AArch64: vectors of four floats. */
#define ERT_ISA          neon
#define ERT_VECTOR_BYTES 16
#include "kernels/simd/body.h"

/* With dot products, and with those of bytes of different signs, the same, but for products of bytes (i8-dotprod.c, i8-i8mm.c). */
#undef ERT_ISA
#define ERT_ISA neondotprod
#include "kernels/simd/table.h"

#undef ERT_ISA
#define ERT_ISA neoni8mm
#include "kernels/simd/table.h"
