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
ERT_INLINE void i8_join_words(const int32_t rows[4][16], uint8_t *y) {
#if ERT_VECTOR_BYTES == 64
  const __m512i a = _mm512_loadu_si512(rows[0]), b = _mm512_loadu_si512(rows[1]);
  const __m512i c = _mm512_loadu_si512(rows[2]), d = _mm512_loadu_si512(rows[3]);
  /* of each 128 bits, pixels 0 and 1, and 2 and 3 */
  const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
  const __m512i ab2 = _mm512_unpackhi_epi32(a, b), cd2 = _mm512_unpackhi_epi32(c, d);
  const __m512i first = _mm512_unpacklo_epi64(ab, cd), second = _mm512_unpackhi_epi64(ab, cd);
  const __m512i third = _mm512_unpacklo_epi64(ab2, cd2), fourth = _mm512_unpackhi_epi64(ab2, cd2);
  /* pixels 0, 4, 8, 12 and so on: a transposition of 128 bits */
  const __m512i even = _mm512_shuffle_i32x4(first, second, 0x44), odd = _mm512_shuffle_i32x4(third, fourth, 0x44);
  const __m512i even2 = _mm512_shuffle_i32x4(first, second, 0xee), odd2 = _mm512_shuffle_i32x4(third, fourth, 0xee);
  _mm512_storeu_si512(y, _mm512_shuffle_i32x4(even, odd, 0x88));
  _mm512_storeu_si512(y + 64, _mm512_shuffle_i32x4(even, odd, 0xdd));
  _mm512_storeu_si512(y + 128, _mm512_shuffle_i32x4(even2, odd2, 0x88));
  _mm512_storeu_si512(y + 192, _mm512_shuffle_i32x4(even2, odd2, 0xdd));
#else
  for (ptrdiff_t i = 0; i < 16; i++)
    for (ptrdiff_t q = 0; q < 4; q++) memcpy(y + i * 16 + q * 4, rows[q] + i, 4);
#endif
}

/* The bytes of a channel, sixteen positions, in the lowest byte of words. */
ERT_INLINE void i8_plane_levels(const ert_i8_finish *f, const int32_t *sums, int32_t bias, float scale,
                                const vi other[V16], vi levels[V16]) {
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    const vi sum = i8_plus(vload_int(sums + v * VL), bias - (vi){0});
    const vf scaled = vmin(vsplat(f->hi), vmax(vsplat(f->lo), __builtin_convertvector(sum, vf) * vsplat(scale)));
    if (!f->twice) {
      levels[v] = i8_round(scaled) + f->zero;
      continue;
    }
    vf both = __builtin_convertvector(i8_round(scaled), vf) * vsplat(f->own);
    if (other) both += __builtin_convertvector(other[v] - f->other_zero, vf) * vsplat(f->other);
    levels[v] = i8_round(vmin(vsplat(f->sum_hi), vmax(vsplat(f->sum_lo), both))) + f->sum_zero;
  }
}

ERT_INLINE void i8_finish_all(const ert_i8_finish *f, const int32_t *sums, const int32_t *bias, const float *scale,
                              const uint8_t *residual, uint8_t *y) {
  int32_t others[4][16], words[4][16];
  if (residual) i8_split_words(residual, others[0], 16);
  for (int q = 0; q < 4; q++) {
    vi quad[V16] = {0};
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++, sums += 16, bias++, scale++) {
      vi other[V16], levels[V16];
      for (int v = 0; residual && v < V16; v++)
        other[v] = (vi)((i8_unsigned)vload_int(others[q] + v * VL) >> 8 * k & 255);
      i8_plane_levels(f, sums, *bias, *scale, residual ? other : NULL, levels);
      for (int v = 0; v < V16; v++) quad[v] |= (vi)((i8_unsigned)levels[v] << 8 * k);
    }
    for (int v = 0; v < V16; v++) vstore_int(words[q] + v * VL, quad[v]);
  }
  i8_join_words(words, y);
}

static void i8_finish_planes(const ert_i8_finish *finish, const int32_t *sums, const int32_t *bias, const float *scale,
                             const uint8_t *residual, uint8_t *y) {
  const ert_i8_finish f = *finish; /* which bytes of y could lie over */
  if (residual)
    i8_finish_all(&f, sums, bias, scale, residual, y);
  else
    i8_finish_all(&f, sums, bias, scale, NULL, y);
}
