/* What the inner loops of bytes need of an instruction set: products of bytes added to 32 bits, floats rounded to integers,
 * and integers narrowed to bytes. */
#ifndef ERT_KERNELS_SIMD_I8_VEC_H
#define ERT_KERNELS_SIMD_I8_VEC_H

#include <stddef.h>

#include "kernels/simd/vec.h"

enum { I8_MAX_P = 14, I8_MAX_VECTORS = 8 }; /* of a tile of sums: pixels, and vectors of each */

ERT_INLINE vi i8_splat(const uint8_t *x) {
  int32_t quad;
  memcpy(&quad, x, sizeof quad);
  return quad - (vi){0};
}

typedef uint32_t i8_unsigned __attribute__((vector_size(ERT_VECTOR_BYTES)));
ERT_INLINE vi i8_plus(vi a, vi b) { return (vi)((i8_unsigned)a + (i8_unsigned)b); } /* wraps */

#if ERT_I8_DOT /* the instruction set multiplies bytes */
#include "kernels/simd/i8-dot.h"
#else
#include "kernels/simd/i8-pairs.h"
#endif

/* What the sums of a block start from: its biases; or `room` with those and 128 times the sums of its n weights, if 128 is
 * taken off inputs. */
ERT_INLINE const int32_t *i8_start(const int32_t *bias, const int32_t *w, ptrdiff_t n, int32_t room[16]) {
#if ERT_I8_SIGNED
  const vi ones = 0x01010101 - (vi){0};
  for (int v = 0; v < V16; v++) {
    vi sum = {0};
    for (ptrdiff_t i = v * VL; i < n; i += 16) sum = i8_multiply(sum, ones, i8_weights(w + i));
    vstore_int(room + v * VL, i8_plus(vload_int(bias + v * VL), (vi)((i8_unsigned)sum << 7)));
  }
  return room;
#else
  (void)w, (void)n, (void)room;
  return bias;
#endif
}

/* The smaller and the larger one; `found` where x is NaN. */
#if defined(__x86_64__)
ERT_INLINE vf i8_least(vf found, vf x) { return vmin(x, found); }
ERT_INLINE vf i8_most(vf found, vf x) { return vmax(x, found); }
#else
ERT_INLINE vf i8_least(vf found, vf x) { return vselect(x < found, x, found); }
ERT_INLINE vf i8_most(vf found, vf x) { return vselect(x > found, x, found); }
#endif

/* Halves to even; of floats below 2^31, or the least integer. */
ERT_INLINE vi i8_round(vf v) {
#if ERT_VECTOR_BYTES == 64
  return (vi)_mm512_cvtps_epi32((__m512)v);
#elif ERT_VECTOR_BYTES == 32
  return (vi)_mm256_cvtps_epi32((__m256)v);
#elif defined(__x86_64__)
  return (vi)_mm_cvtps_epi32((__m128)v);
#else
  return (vi)vcvtnq_s32_f32((float32x4_t)v);
#endif
}

#if ERT_VECTOR_BYTES < 64
/* 16 integers as bytes, those beyond `low` and 255 as these. */
ERT_INLINE void i8_store(uint8_t *y, const vi v[V16], uint8_t low) {
#if ERT_VECTOR_BYTES == 32
  const __m256i wide = _mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]), 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storeu_si128((__m128i_u *)(void *)y, _mm_max_epu8(bytes, _mm_set1_epi8((char)low)));
#elif defined(__x86_64__)
  const __m128i first = _mm_packs_epi32((__m128i)v[0], (__m128i)v[1]);
  const __m128i last = _mm_packs_epi32((__m128i)v[2], (__m128i)v[3]);
  _mm_storeu_si128((__m128i_u *)(void *)y, _mm_max_epu8(_mm_packus_epi16(first, last), _mm_set1_epi8((char)low)));
#else
  const int16x8_t first = vcombine_s16(vqmovn_s32((int32x4_t)v[0]), vqmovn_s32((int32x4_t)v[1]));
  const int16x8_t last = vcombine_s16(vqmovn_s32((int32x4_t)v[2]), vqmovn_s32((int32x4_t)v[3]));
  vst1q_u8(y, vmaxq_u8(vcombine_u8(vqmovun_s16(first), vqmovun_s16(last)), vdupq_n_u8(low)));
#endif
}
#endif

/* 16 integers that are bytes. */
ERT_INLINE void i8_store_levels(uint8_t *y, const vi v[V16]) {
#if ERT_VECTOR_BYTES == 64
  _mm_storeu_si128((__m128i_u *)(void *)y, _mm512_cvtepi32_epi8((__m512i)v[0]));
#else
  i8_store(y, v, 0);
#endif
}

/* 16 bytes as integers. */
ERT_INLINE void i8_load(const uint8_t *x, vi v[V16]) {
#if ERT_VECTOR_BYTES == 64
  v[0] = (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)x));
#elif ERT_VECTOR_BYTES == 32
  v[0] = (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)x));
  v[1] = (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)(x + 8)));
#else
  for (int i = 0; i < 4; i++, x += 4) v[i] = (vi){x[0], x[1], x[2], x[3]};
#endif
}

#endif
