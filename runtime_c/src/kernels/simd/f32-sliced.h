/* Slices of 16 columns of a sparse matrix times a row of inputs: each step picks an input for every column out of a window
 * of 16, by permutations. Where there are none of floats by variables, as in vectors of four, it goes one by one. */
#ifndef ERT_KERNELS_SIMD_F32_SLICED_H
#define ERT_KERNELS_SIMD_F32_SLICED_H

#include "kernels/simd/vec.h"

#if ERT_VECTOR_BYTES == 16
#include "kernels/simd/scalar-sliced.h"
#else

/* The sums of 16 columns. */
typedef struct sliced_sums {
  vf of[V16];
} sliced_sums;

/* Those of step i, added. */
ERT_INLINE void sliced_step(const ert_sliced *s, size_t i, sliced_sums *sums) {
  const float *x = s->x + s->windows[i], *values = s->values + 16 * i;
  long long places; /* of even columns in its lower half, of odd ones in its upper, four bits each */
  memcpy(&places, s->places + 8 * i, sizeof places);
#if ERT_VECTOR_BYTES == 64
  const __m512i shifts = _mm512_set_epi32(28, 28, 24, 24, 20, 20, 16, 16, 12, 12, 8, 8, 4, 4, 0, 0);
  const __m512i lanes = _mm512_srlv_epi32(_mm512_set1_epi64(places), shifts); /* of which four bits count */
  const __m512 inputs = _mm512_permutexvar_ps(lanes, _mm512_loadu_ps(x));
  sums->of[0] = (vf)_mm512_fmadd_ps(inputs, _mm512_loadu_ps(values), (__m512)sums->of[0]);
#else
  const __m256i both = _mm256_set1_epi64x(places);
  const __m256 low = _mm256_loadu_ps(x), high = _mm256_loadu_ps(x + 8);
  for (int v = 0; v < 2; v++) {
    const __m256i shifts = _mm256_add_epi32(_mm256_set_epi32(12, 12, 8, 8, 4, 4, 0, 0), _mm256_set1_epi32(16 * v));
    const __m256i lanes = _mm256_srlv_epi32(both, shifts); /* of which three bits count, and the fourth chooses */
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(lanes, 28));
    const __m256 inputs =
        _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, lanes), _mm256_permutevar8x32_ps(high, lanes), upper);
    sums->of[v] = (vf)_mm256_fmadd_ps(inputs, _mm256_loadu_ps(values + 8 * v), (__m256)sums->of[v]);
  }
#endif
}

/* Even steps and odd ones have sums of their own, so that neither has to wait for the other. */
static void sliced_run(const ert_sliced *s) {
  sliced_sums even, odd;
  for (int v = 0; v < V16; v++) even.of[v] = vload(s->sums + v * VL), odd.of[v] = vzero();
  size_t i = 0;
  for (; i + 2 <= s->steps; i += 2) {
    sliced_step(s, i, &even);
    sliced_step(s, i + 1, &odd);
  }
  if (i < s->steps) sliced_step(s, i, &even);
  for (int v = 0; v < V16; v++) vstore(s->sums + v * VL, even.of[v] + odd.of[v]);
}

#endif
#endif
