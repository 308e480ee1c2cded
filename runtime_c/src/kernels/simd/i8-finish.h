/* Sums of neighbouring pixels of one block of 16 output channels as bytes, as floats, or as they are. */

/* What a finish comes down to: a zero point and the least byte. */
ERT_INLINE int32_t i8_zero(const ert_i8_finish *f) { return f->twice ? f->sum_zero : f->zero; }
ERT_INLINE float i8_low(const ert_i8_finish *f) { return f->twice ? f->sum_lo : f->lo; }

/* The rounded results of one block of a pixel less their zero point: no larger than they may be. Those below the least byte
 * are below it here, too. */
ERT_INLINE void i8_levels(const ert_i8_finish *f, const vi *sums, const float *scale, const uint8_t *other,
                          vi levels[V16]) {
  vi residual[V16];
  if (other) i8_load(other, residual);
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    const vf scaled = vmin(vsplat(f->hi), __builtin_convertvector(sums[v], vf) * vload(scale + v * VL));
    if (!f->twice) {
      levels[v] = i8_round(scaled);
      continue;
    }
    vf sum = __builtin_convertvector(i8_round(vmax(vsplat(f->lo), scaled)), vf) * vsplat(f->own);
    if (other) sum += __builtin_convertvector(residual[v] - f->other_zero, vf) * vsplat(f->other);
    levels[v] = i8_round(vmin(vsplat(f->sum_hi), sum));
  }
}

/* P pixels of a block, sums[p][at] the first of each, to bytes `y_pixel` apart; residuals, if any, are 16 bytes apart. */
ERT_INLINE void i8_finish(const ert_i8_finish *f, vi sums[I8_MAX_P][I8_MAX_VECTORS], int at, const float *scale,
                          uint8_t *y, ptrdiff_t y_pixel, const uint8_t *other, int P) {
  const int32_t zero = i8_zero(f);
  const uint8_t low = (uint8_t)((int32_t)i8_low(f) + zero);
#if ERT_VECTOR_BYTES == 64
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i zeros = _mm512_set1_epi16((int16_t)zero), least = _mm512_set1_epi8((char)low);
#pragma GCC unroll 4
  for (int p = 0; p < P; p += 4) { /* four pixels in one vector */
    const int n = P - p < 4 ? P - p : 4;
    __m512i levels[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const int pixel = p + (i < n ? i : 0);
      vi found;
      i8_levels(f, &sums[pixel][at], scale, other ? other + pixel * 16 : NULL, &found);
      levels[i] = (__m512i)found;
    }
    const __m512i low_half = _mm512_adds_epi16(_mm512_packs_epi32(levels[0], levels[1]), zeros);
    const __m512i high_half = _mm512_adds_epi16(_mm512_packs_epi32(levels[2], levels[3]), zeros);
    const __m512i lanes = _mm512_max_epu8(_mm512_packus_epi16(low_half, high_half), least);
    const __m512i bytes = _mm512_permutexvar_epi32(order, lanes);
    if (y_pixel == 16) {
      _mm512_mask_storeu_epi32(y + p * 16, (__mmask16)((1u << 4 * n) - 1), bytes);
      continue;
    }
    uint8_t pixels[64];
    _mm512_storeu_si512(pixels, bytes);
    for (int i = 0; i < n; i++) memcpy(y + (p + i) * y_pixel, pixels + 16 * i, 16);
  }
#else
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) {
    vi levels[V16];
    i8_levels(f, &sums[p][at], scale, other ? other + p * 16 : NULL, levels);
#pragma GCC unroll 4
    for (int v = 0; v < V16; v++) levels[v] += zero;
    i8_store(y + p * y_pixel, levels, low);
  }
#endif
}

/* P pixels of a block as floats or as they are, `y_pixel` bytes apart. */
ERT_INLINE void i8_finish_wide(const ert_i8_finish *f, vi sums[I8_MAX_P][I8_MAX_VECTORS], int at, const float *scale,
                               const float *offset, uint8_t *y, ptrdiff_t y_pixel, int P) {
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    if (f->result == ERT_I8_SUMS) {
#pragma GCC unroll 14
      for (int p = 0; p < P; p++) vstore_int((int32_t *)(void *)(y + p * y_pixel) + v * VL, sums[p][at + v]);
      continue;
    }
    const vf by = vload(scale + v * VL), more = vload(offset + v * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
      const vf result = __builtin_convertvector(sums[p][at + v], vf) * by + more;
      vstore((float *)(void *)(y + p * y_pixel) + v * VL, vmax(vsplat(f->lo), vmin(vsplat(f->hi), result)));
    }
  }
}
