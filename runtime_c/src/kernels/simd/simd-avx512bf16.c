/* AVX512-BF16: sums of products of pairs of neighbouring channels, a vector of sixteen an instruction. */
#define ERT_VECTOR_BYTES 64
#include "kernels/simd/f32-dense.h"

void ert_dense_pairs(const ert_dense *d);
void ert_dense_pairs(const ert_dense *d) { dense_products(d, DENSE_PAIRS); }

void ert_round_pairs(const float *x, void *y, size_t n);
void ert_round_pairs(const float *x, void *y, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    const __m256bh pairs = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    memcpy((char *)y + 2 * i, &pairs, sizeof pairs);
  }
}
