/* Pixels of 16 channels as rows of quads, and rows of sums as pixels of 16 channels. */

/* Sixteen pixels of four words each as four rows of sixteen, and back: they are each other's inverse. */
#if ERT_VECTOR_BYTES == 64
ERT_INLINE void i8_split_words(const uint8_t *x, int32_t *to, ptrdiff_t row) {
  const __m512i low = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i high = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + 64);
  const __m512i c = _mm512_loadu_si512(x + 128), d = _mm512_loadu_si512(x + 192);
  const __m512i ab = _mm512_permutex2var_epi32(a, low, b), cd = _mm512_permutex2var_epi32(c, low, d);
  const __m512i ab2 = _mm512_permutex2var_epi32(a, high, b), cd2 = _mm512_permutex2var_epi32(c, high, d);
  _mm512_storeu_si512(to, _mm512_shuffle_i64x2(ab, cd, 0x44));
  _mm512_storeu_si512(to + row, _mm512_shuffle_i64x2(ab, cd, 0xee));
  _mm512_storeu_si512(to + 2 * row, _mm512_shuffle_i64x2(ab2, cd2, 0x44));
  _mm512_storeu_si512(to + 3 * row, _mm512_shuffle_i64x2(ab2, cd2, 0xee));
}
#else
ERT_INLINE void i8_split_words(const uint8_t *x, int32_t *to, ptrdiff_t row) {
  for (ptrdiff_t q = 0; q < 4; q++)
    for (ptrdiff_t i = 0; i < 16; i++) memcpy(to + q * row + i, x + i * 16 + q * 4, 4);
}
#endif

static void i8_split(const uint8_t *x, size_t n, int32_t *to, ptrdiff_t row, ptrdiff_t apart) {
  for (; n >= 16; n -= 16, x += 256, to += apart) i8_split_words(x, to, row);
  if (n == 0) return;
  uint8_t last[256] = {0};
  memcpy(last, x, n * 16);
  i8_split_words(last, to, row);
}

/* Four rows of sixteen words as sixteen pixels of four. */
#if ERT_VECTOR_BYTES == 64
ERT_INLINE void i8_join_words(const __m512i rows[4], uint8_t *y) {
  const __m512i ab = _mm512_unpacklo_epi32(rows[0], rows[1]), cd = _mm512_unpacklo_epi32(rows[2], rows[3]);
  const __m512i ab2 = _mm512_unpackhi_epi32(rows[0], rows[1]), cd2 = _mm512_unpackhi_epi32(rows[2], rows[3]);
  /* pixels 0, 4, 8 and 12, and so on: a transposition of 128 bits is left */
  const __m512i a = _mm512_unpacklo_epi64(ab, cd), b = _mm512_unpackhi_epi64(ab, cd);
  const __m512i c = _mm512_unpacklo_epi64(ab2, cd2), d = _mm512_unpackhi_epi64(ab2, cd2);
  const __m512i even = _mm512_shuffle_i32x4(a, b, 0x44), odd = _mm512_shuffle_i32x4(c, d, 0x44);
  const __m512i even2 = _mm512_shuffle_i32x4(a, b, 0xee), odd2 = _mm512_shuffle_i32x4(c, d, 0xee);
  _mm512_storeu_si512(y, _mm512_shuffle_i32x4(even, odd, 0x88));
  _mm512_storeu_si512(y + 64, _mm512_shuffle_i32x4(even, odd, 0xdd));
  _mm512_storeu_si512(y + 128, _mm512_shuffle_i32x4(even2, odd2, 0x88));
  _mm512_storeu_si512(y + 192, _mm512_shuffle_i32x4(even2, odd2, 0xdd));
}

/* Four channels' levels less their zero point as words of four bytes, none below the least. */
ERT_INLINE __m512i i8_join_levels(const vi levels[4], __m512i zeros, __m512i least) {
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i low = _mm512_packs_epi32((__m512i)levels[0], (__m512i)levels[1]);
  const __m512i high = _mm512_packs_epi32((__m512i)levels[2], (__m512i)levels[3]);
  const __m512i bytes = _mm512_packus_epi16(_mm512_adds_epi16(low, zeros), _mm512_adds_epi16(high, zeros));
  return _mm512_shuffle_epi8(_mm512_max_epu8(bytes, least), order);
}
#endif

/* A channel's levels less their zero point, of VL positions: no larger than they may be. Those below the least byte are below
 * it here, too. */
ERT_INLINE vi i8_plane_levels(const ert_i8_finish *f, bool twice, const int32_t *sums, int32_t bias, float scale,
                              const vi *other) {
  const vi sum = i8_plus(vload_int(sums), bias - (vi){0});
  const vf scaled = vmin(vsplat(f->hi), __builtin_convertvector(sum, vf) * vsplat(scale));
  if (!twice) return i8_round(scaled);
  vf both = __builtin_convertvector(i8_round(vmax(vsplat(f->lo), scaled)), vf) * vsplat(f->own);
  if (other) both += __builtin_convertvector(*other - f->other_zero, vf) * vsplat(f->other);
  return i8_round(vmin(vsplat(f->sum_hi), both));
}

/* Byte k of words. */
ERT_INLINE vi i8_byte(const int32_t *words, int k) { return (vi)((i8_unsigned)vload_int(words) >> 8 * k & 255); }

ERT_INLINE void i8_finish_all(const ert_i8_finish *f, bool twice, const int32_t *sums, const int32_t *bias,
                              const float *scale, const uint8_t *residual, uint8_t *y) {
  const int32_t zero = i8_zero(f);
  const uint8_t low = (uint8_t)((int32_t)i8_low(f) + zero);
  int32_t others[4][16];
  if (residual) i8_split_words(residual, others[0], 16);
#if ERT_VECTOR_BYTES == 64
  const __m512i zeros = _mm512_set1_epi16((int16_t)zero), least = _mm512_set1_epi8((char)low);
  __m512i rows[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; q++) {
    vi levels[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      const vi other = residual ? i8_byte(others[q], k) : (vi){0};
      const int c = 4 * q + k;
      levels[k] = i8_plane_levels(f, twice, sums + c * 16, bias[c], scale[c], residual ? &other : NULL);
    }
    rows[q] = i8_join_levels(levels, zeros, least);
  }
  i8_join_words(rows, y);
#else
  for (int c = 0; c < 16; c++, sums += 16)
    for (int v = 0; v < V16; v++) {
      const vi other = residual ? i8_byte(others[c / 4] + v * VL, c % 4) : (vi){0};
      const vi levels = i8_plane_levels(f, twice, sums + v * VL, bias[c], scale[c], residual ? &other : NULL) + zero;
      for (int i = 0; i < VL; i++) {
        const int32_t level = levels[i] < low ? low : levels[i];
        y[(v * VL + i) * 16 + c] = (uint8_t)(level > 255 ? 255 : level);
      }
    }
#endif
}

static void i8_finish_planes(const ert_i8_finish *finish, const int32_t *sums, const int32_t *bias, const float *scale,
                             const uint8_t *residual, uint8_t *y) {
  const ert_i8_finish f = *finish; /* which bytes of y could lie over */
  if (residual)
    i8_finish_all(&f, true, sums, bias, scale, residual, y);
  else if (f.twice)
    i8_finish_all(&f, true, sums, bias, scale, NULL, y);
  else
    i8_finish_all(&f, false, sums, bias, scale, NULL, y);
}
