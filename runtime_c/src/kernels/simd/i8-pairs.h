/* Products of quads of bytes without an instruction for them: widened to 16 bits. */

/* Four bytes of each pixel, or of each output channel, as the multiplication takes them: the first and third apart from the
 * second and fourth, whose products are added in pairs. */
typedef struct i8_quad {
  vi even, odd;
} i8_quad;

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
