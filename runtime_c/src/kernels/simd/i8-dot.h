/* Products of quads of bytes by an instruction for them. With ERT_I8_SIGNED it takes signed inputs only, which are inputs less
 * 128: sums start from what that leaves out. */

typedef vi i8_quad; /* four bytes of each pixel, or of each output channel */

#if ERT_I8_SIGNED
enum { I8_FLIP = 0x80 }; /* of a byte: less 128 */
#else
enum { I8_FLIP = 0 };
#endif

ERT_INLINE i8_quad i8_input(const uint8_t *x) { return (vi)((i8_unsigned)i8_splat(x) ^ I8_FLIP * 0x01010101u); }
ERT_INLINE i8_quad i8_weights(const int32_t *w) { return vload_int(w); }

ERT_INLINE vi i8_multiply(vi sum, i8_quad x, i8_quad w) {
#if ERT_VECTOR_BYTES == 64
  return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif ERT_VECTOR_BYTES == 32
  return (vi)_mm256_dpbusd_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#elif ERT_I8_SIGNED
  return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)x, (int8x16_t)w);
#else
  return (vi)vusdotq_s32((int32x4_t)sum, (uint8x16_t)x, (int8x16_t)w);
#endif
}

#if defined(__aarch64__)
/* Four quads of a pixel, and the product of one of them. */
ERT_INLINE vi i8_inputs(const uint8_t *x) { return (vi)(vld1q_u8(x) ^ I8_FLIP); }

ERT_INLINE vi i8_multiply_lane(vi sum, vi x, int lane, i8_quad w) {
#if ERT_I8_SIGNED
#define I8_LANE(i) (vi) vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)x, i)
#else
#define I8_LANE(i) (vi) vsudotq_laneq_s32((int32x4_t)sum, (int8x16_t)w, (uint8x16_t)x, i)
#endif
  return lane == 0 ? I8_LANE(0) : lane == 1 ? I8_LANE(1) : lane == 2 ? I8_LANE(2) : I8_LANE(3);
#undef I8_LANE
}
#endif

/* The bytes at x, x + 16, x + 32 and x + 48 for each of 16 channels, side by side. */
ERT_INLINE void i8_taps(const uint8_t *x, i8_quad taps[V16]) {
#if ERT_VECTOR_BYTES == 64
  const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  taps[0] = (vi)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, _mm512_loadu_si512(x)), bytes);
#elif ERT_VECTOR_BYTES == 32
  const __m128i_u *from = (const __m128i_u *)(const void *)x;
  const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
  const __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
  const __m128i ab8 = _mm_unpackhi_epi8(a, b), cd8 = _mm_unpackhi_epi8(c, d); /* of the channels from 8 on */
  taps[0] = (vi)_mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
  taps[1] = (vi)_mm256_set_m128i(_mm_unpackhi_epi16(ab8, cd8), _mm_unpacklo_epi16(ab8, cd8));
#else
  const uint8x16_t a = vld1q_u8(x) ^ I8_FLIP, b = vld1q_u8(x + 16) ^ I8_FLIP;
  const uint8x16_t c = vld1q_u8(x + 32) ^ I8_FLIP, d = vld1q_u8(x + 48) ^ I8_FLIP;
  const uint16x8_t ab = (uint16x8_t)vzip1q_u8(a, b), cd = (uint16x8_t)vzip1q_u8(c, d);
  const uint16x8_t ab8 = (uint16x8_t)vzip2q_u8(a, b), cd8 = (uint16x8_t)vzip2q_u8(c, d); /* from channel 8 on */
  taps[0] = (vi)vzip1q_u16(ab, cd), taps[1] = (vi)vzip2q_u16(ab, cd);
  taps[2] = (vi)vzip1q_u16(ab8, cd8), taps[3] = (vi)vzip2q_u16(ab8, cd8);
#endif
}
