/* AVX-512 (F, BW, DQ, VL): vectors of sixteen floats. */
#define ERT_ISA          avx512
#define ERT_VECTOR_BYTES 64
#include "kernels/simd/body.h"

/* With AVX512-BF16 the same, but for products of bf16 (simd-avx512bf16.c). */
extern const ert_simd ert_simd_avx512bf16;
extern void ert_dense_pairs(const ert_dense *d), ert_round_pairs(const float *x, void *y, size_t n);
const ert_simd ert_simd_avx512bf16 = {
    .name = "avx512bf16",
    .dense_bf16 = ert_dense_pairs,
    .round_bf16 = ert_round_pairs,
    .bf16_bytes = 2,
#include "kernels/simd/rows.h"
};
