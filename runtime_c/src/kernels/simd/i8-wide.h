/* Inner loop of bytes where there are products of 16 bits only: inputs and the weights of a block are widened once, and a tile
 * of P pixels by a block of 16 output channels stays in registers while all of them pass by. Exact: sums of two products fit
 * 32 bits. */

/* The tiles X(pixels) of this instruction set. */
#if ERT_VECTOR_BYTES == 32
#define I8_WIDE_TILES(X) X(1) X(2) X(3) X(4)
#else
#define I8_WIDE_TILES(X) X(1) X(2)
#endif

static void i8_widen(const uint8_t *x, size_t n, int32_t *wide) {
  const __m128i low = _mm_set1_epi16(0xff);
  for (; n >= 16; n -= 16, x += 16, wide += 8) {
    const __m128i quads = _mm_loadu_si128((const __m128i_u *)(const void *)x);
    const __m128i even = _mm_and_si128(quads, low), odd = _mm_srli_epi16(quads, 8);
    _mm_storeu_si128((__m128i_u *)(void *)wide, _mm_unpacklo_epi32(even, odd));
    _mm_storeu_si128((__m128i_u *)(void *)(wide + 4), _mm_unpackhi_epi32(even, odd));
  }
  for (; n >= 4; n -= 4, x += 4, wide += 2) wide[0] = x[0] | x[2] << 16, wide[1] = x[1] | x[3] << 16;
}

/* The weights of a block, of each vector the first and third ones and then the others. */
static void i8_widen_weights(const int32_t *w, ptrdiff_t n, int32_t *wide) {
  for (ptrdiff_t i = 0; i < n; i += VL) {
    const i8_quad quad = i8_weights(w + i);
    vstore_int(wide + 2 * i, quad.even), vstore_int(wide + 2 * i + VL, quad.odd);
  }
}

ERT_INLINE void i8_wide_tile(const ert_i8_dense *d, const int32_t *x, size_t block, uint8_t *y, const uint8_t *residual,
                             bool floats, int P) {
  const int32_t *w = d->wide_w;
  vi acc[I8_MAX_P][I8_MAX_VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    const vi start = vload_int(d->bias + block * 16 + v * VL);
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) acc[p][v] = start;
  }
  const ptrdiff_t stride = d->x_pixel / 2;
  const ert_i8_range used = i8_range_of(d, block, 1);
  for (const ert_span *span = d->spans + used.first, *end = d->spans + used.end; span < end; span++) {
    const int32_t *at = x + span->offset / 2;
    for (size_t left = span->count; left > 0; left -= 4, w += 32, at += 2) {
#pragma GCC unroll 4
      for (int p = 0; p < P; p++) {
        const vi even = at[p * stride] - (vi){0}, odd = at[p * stride + 1] - (vi){0};
#pragma GCC unroll 4
        for (int v = 0; v < V16; v++) {
          const i8_quad row = {vload_int(w + 2 * v * VL), vload_int(w + (2 * v + 1) * VL)};
          acc[p][v] = i8_multiply(acc[p][v], (i8_quad){even, odd}, row);
        }
      }
    }
  }
  const float *scale = d->scale + block * 16;
  if (floats)
    i8_finish_wide(&d->finish, acc, 0, scale, d->offset + block * 16, y, d->y_pixel, P);
  else
    i8_finish(&d->finish, acc, 0, scale, y, d->y_pixel, residual, P);
}

typedef void i8_wide_fn(const ert_i8_dense *d, const int32_t *x, size_t block, uint8_t *y, const uint8_t *residual);

#define I8_DEFINE_WIDE(P)                                                                    \
  static void i8_wide_##P(const ert_i8_dense *d, const int32_t *x, size_t block, uint8_t *y, \
                          const uint8_t *residual) {                                         \
    if (d->finish.result != ERT_I8_BYTES)                                                    \
      i8_wide_tile(d, x, block, y, NULL, true, P);                                           \
    else if (residual)                                                                       \
      i8_wide_tile(d, x, block, y, residual, false, P);                                      \
    else                                                                                     \
      i8_wide_tile(d, x, block, y, NULL, false, P);                                          \
  }
I8_WIDE_TILES(I8_DEFINE_WIDE)

#define I8_WIDE_ENTRY(P) i8_wide_##P,
static i8_wide_fn *const i8_wide_tiles[] = {NULL, I8_WIDE_TILES(I8_WIDE_ENTRY)};

static void i8_wide(const ert_i8_dense *d) {
  const size_t most = sizeof i8_wide_tiles / sizeof *i8_wide_tiles - 1, tiles = (d->pixels + most - 1) / most;
  for (size_t block = 0; block < d->blocks; block++) {
    const ert_i8_range used = i8_range_of(d, block, 1);
    i8_widen_weights(d->w + (ptrdiff_t)block * d->w_block + used.begin * 4, i8_inputs_of(d, used) * 4, d->wide_w);
    for (size_t row = 0; row < d->rows; row++) {
      const int32_t *x = d->wide_x + (ptrdiff_t)row * d->x_row / 2;
      const uint8_t *residual = d->residual;
      uint8_t *y = d->y + (ptrdiff_t)row * d->y_row + (ptrdiff_t)block * d->y_block;
      if (residual) residual += (ptrdiff_t)row * d->residual_row + (ptrdiff_t)block * d->residual_block;
      for (size_t tile = 0, begin = 0; tile < tiles; tile++) {
        const size_t count = (d->pixels - begin) / (tiles - tile);
        const ptrdiff_t at = (ptrdiff_t)begin;
        i8_wide_tiles[count](d, x + at * d->x_pixel / 2, block, y + at * d->y_pixel,
                             residual ? residual + at * 16 : NULL);
        begin += count;
      }
    }
  }
}
