/* Where the gaps of rows of non-zeros lead: 64 of them are added up at once, as rows are so short that a loop over fewer would
 * mostly wait for its end, which nobody can foresee. */
#ifndef ERT_KERNELS_SIMD_SPARSE_GAPS_H
#define ERT_KERNELS_SIMD_SPARSE_GAPS_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

enum { GAPS_SUMMED = 64 };

/* The sum of the first n, or of the first 64; up to `end` there is something to read. */
#if ERT_VECTOR_BYTES == 64
ERT_INLINE uint32_t gaps_sum(const uint8_t *gaps, size_t n, const uint8_t *end) {
  (void)end;
  const __mmask64 own = n < GAPS_SUMMED ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
  const __m512i sums = _mm512_sad_epu8(_mm512_maskz_loadu_epi8(own, gaps), _mm512_setzero_si512());
  return (uint32_t)_mm512_reduce_add_epi64(sums);
}
#else
static const uint64_t gaps_own[16] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                      UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

ERT_INLINE uint32_t gaps_sum(const uint8_t *gaps, size_t n, const uint8_t *end) {
  if (end - gaps < GAPS_SUMMED) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += gaps[i];
    return sum;
  }
  const uint8_t *own = (const uint8_t *)gaps_own + GAPS_SUMMED - (n < GAPS_SUMMED ? n : GAPS_SUMMED);
#if ERT_VECTOR_BYTES == 32
  __m256i both = _mm256_setzero_si256();
  for (int i = 0; i < GAPS_SUMMED; i += 32) {
    const __m256i of = _mm256_loadu_si256((const void *)(gaps + i)), kept = _mm256_loadu_si256((const void *)(own + i));
    both = _mm256_add_epi64(both, _mm256_sad_epu8(_mm256_and_si256(of, kept), _mm256_setzero_si256()));
  }
  const __m128i sums = _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
#elif defined(__x86_64__)
  __m128i sums = _mm_setzero_si128();
  for (int i = 0; i < GAPS_SUMMED; i += 16) {
    const __m128i of = _mm_loadu_si128((const void *)(gaps + i)), kept = _mm_loadu_si128((const void *)(own + i));
    sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_and_si128(of, kept), _mm_setzero_si128()));
  }
  return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
#else
  uint16x8_t sums = vdupq_n_u16(0);
  for (int i = 0; i < GAPS_SUMMED; i += 16) sums = vpadalq_u8(sums, vandq_u8(vld1q_u8(gaps + i), vld1q_u8(own + i)));
  return vaddvq_u16(sums);
#endif
}
#endif

static uint32_t sparse_farthest(const ert_gaps *g) {
  uint32_t most = 0;
  const uint8_t *gaps = g->gaps;
  for (size_t row = 0; row < g->rows; row++)
    for (size_t i = 0; i < g->groups; i++) {
      size_t n = g->counts[(ptrdiff_t)row * g->counts_row + (ptrdiff_t)i];
      uint32_t sum = gaps_sum(gaps, n, g->end);
      for (; n > GAPS_SUMMED; n -= GAPS_SUMMED) {
        gaps += GAPS_SUMMED;
        sum += gaps_sum(gaps, n - GAPS_SUMMED, g->end);
      }
      gaps += n;
      most = sum > most ? sum : most;
    }
  return most;
}

#endif
