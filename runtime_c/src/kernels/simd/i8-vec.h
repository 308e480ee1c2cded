/* What the inner loops of bytes need of an instruction set: products of bytes added to 32 bits, floats rounded to integers,
 * and integers narrowed to bytes. */
#ifndef ERT_KERNELS_SIMD_I8_VEC_H
#define ERT_KERNELS_SIMD_I8_VEC_H

#include "kernels/simd/vec.h"

enum { I8_MAX_P = 14, I8_MAX_VECTORS = 8 }; /* of a tile of sums: pixels, and vectors of each */

/* Four bytes of each pixel, and of each output channel, as the multiplication takes them. Without an instruction for bytes:
 * widened to 16 bits, the first and third apart from the second and fourth, whose products are added in pairs. */
typedef struct i8_quad {
  vi even;
#if !defined(__AVX512VNNI__)
  vi odd;
#endif
} i8_quad;

ERT_INLINE vi i8_splat(const uint8_t *x) {
  int32_t quad;
  memcpy(&quad, x, sizeof quad);
  return quad - (vi){0};
}

#if defined(__AVX512VNNI__)
ERT_INLINE i8_quad i8_input(const uint8_t *x) { return (i8_quad){i8_splat(x)}; }
ERT_INLINE i8_quad i8_weights(const int32_t *w) { return (i8_quad){vload_int(w)}; }
ERT_INLINE vi i8_multiply(vi sum, i8_quad x, i8_quad w) {
  return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x.even, (__m512i)w.even);
}
#else
typedef uint32_t i8_unsigned __attribute__((vector_size(ERT_VECTOR_BYTES)));
ERT_INLINE vi i8_plus(vi a, vi b) { return (vi)((i8_unsigned)a + (i8_unsigned)b); } /* wraps */
typedef int16_t i8_words __attribute__((vector_size(ERT_VECTOR_BYTES)));
typedef uint16_t i8_halves __attribute__((vector_size(ERT_VECTOR_BYTES)));
ERT_INLINE i8_quad i8_input(const uint8_t *x) {
  const vi quad = i8_splat(x);
  return (i8_quad){quad & 0x00ff00ff, (vi)((i8_halves)quad >> 8)};
}
ERT_INLINE i8_quad i8_weights(const int32_t *w) {
  const i8_words quad = (i8_words)vload_int(w);
  return (i8_quad){(vi)(quad << 8 >> 8), (vi)(quad >> 8)};
}
#if ERT_VECTOR_BYTES == 32
ERT_INLINE vi i8_pairs(vi a, vi b) { return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
ERT_INLINE vi i8_multiply(vi sum, i8_quad x, i8_quad w) {
  return i8_plus(sum, i8_plus(i8_pairs(x.even, w.even), i8_pairs(x.odd, w.odd)));
}
#elif defined(__x86_64__)
ERT_INLINE vi i8_pairs(vi a, vi b) { return (vi)_mm_madd_epi16((__m128i)a, (__m128i)b); }
ERT_INLINE vi i8_multiply(vi sum, i8_quad x, i8_quad w) {
  return i8_plus(sum, i8_plus(i8_pairs(x.even, w.even), i8_pairs(x.odd, w.odd)));
}
#else
ERT_INLINE vi i8_multiply(vi sum, i8_quad x, i8_quad w) {
  const int16x8_t a = (int16x8_t)x.even, b = (int16x8_t)x.odd, c = (int16x8_t)w.even, d = (int16x8_t)w.odd;
  const int32x4_t low = vmlal_s16(vmull_s16(vget_low_s16(a), vget_low_s16(c)), vget_low_s16(b), vget_low_s16(d));
  const int32x4_t high = vmlal_high_s16(vmull_high_s16(a, c), b, d);
  return i8_plus(sum, (vi)vpaddq_s32(low, high));
}
#endif
#endif

#if defined(__AVX512VNNI__)
/* The bytes at x, x + 16, x + 32 and x + 48 for each of 16 channels, side by side. */
ERT_INLINE i8_quad i8_taps(const uint8_t *x) {
  const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return (i8_quad){(vi)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, _mm512_loadu_si512(x)), bytes)};
}
#else
/* The bytes at x and x + 32 for each of 16 channels, side by side as 16 bits. */
ERT_INLINE void i8_tap_pairs(const uint8_t *x, vi pairs[V16]) {
#if defined(__x86_64__)
  const __m128i_u *from = (const __m128i_u *)(const void *)x;
  const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 2);
  const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
#if ERT_VECTOR_BYTES == 32
  pairs[0] = (vi)_mm256_cvtepu8_epi16(low), pairs[1] = (vi)_mm256_cvtepu8_epi16(high);
#else
  const __m128i zero = _mm_setzero_si128();
  pairs[0] = (vi)_mm_unpacklo_epi8(low, zero), pairs[1] = (vi)_mm_unpackhi_epi8(low, zero);
  pairs[2] = (vi)_mm_unpacklo_epi8(high, zero), pairs[3] = (vi)_mm_unpackhi_epi8(high, zero);
#endif
#else
  const uint8x16_t a = vld1q_u8(x), b = vld1q_u8(x + 32);
  const uint8x16_t low = vzip1q_u8(a, b), high = vzip2q_u8(a, b);
  pairs[0] = (vi)vmovl_u8(vget_low_u8(low)), pairs[1] = (vi)vmovl_high_u8(low);
  pairs[2] = (vi)vmovl_u8(vget_low_u8(high)), pairs[3] = (vi)vmovl_high_u8(high);
#endif
}
#endif

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
