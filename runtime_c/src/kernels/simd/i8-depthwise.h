/* Inner loop of depthwise convolutions of bytes: a tile of neighbouring pixels of one block stays in registers while all taps
 * pass by, four of a line at a time. */

/* The tiles X(pixels) of this instruction set. */
#if ERT_VECTOR_BYTES == 64
#define I8_DEPTH_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif ERT_VECTOR_BYTES == 32 || defined(__aarch64__)
#define I8_DEPTH_TILES(X) X(1) X(2) X(3)
#else
#define I8_DEPTH_TILES(X) X(1) X(2)
#endif

/* Adds the products of four taps of a line, those of pixel 0 at x. */
ERT_INLINE void i8_depth_step(vi acc[I8_MAX_P][I8_MAX_VECTORS], const uint8_t *x, ptrdiff_t stride, const int32_t *w,
                              int P) {
  i8_quad row[V16];
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) row[v] = i8_weights(w + v * VL);
#if ERT_I8_DOT
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) {
    i8_quad taps[V16];
    i8_taps(x + p * stride, taps);
#pragma GCC unroll 4
    for (int v = 0; v < V16; v++) acc[p][v] = i8_multiply(acc[p][v], taps[v], row[v]);
  }
#else /* first and third taps, second and fourth ones: those of a neighbour's first and third */
  vi even[V16], odd[V16];
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) {
    if (p == 0 || stride != 16)
      i8_tap_pairs(x + p * stride, even);
    else
      memcpy(even, odd, sizeof even);
    i8_tap_pairs(x + p * stride + 16, odd);
#pragma GCC unroll 4
    for (int v = 0; v < V16; v++) acc[p][v] = i8_multiply(acc[p][v], (i8_quad){even[v], odd[v]}, row[v]);
  }
#endif
}

ERT_INLINE void i8_depth_tile(const ert_i8_depthwise *d, const uint8_t *x, ptrdiff_t stride, const int32_t *start,
                              uint8_t *y, const uint8_t *residual, bool wide, int P) {
  vi acc[I8_MAX_P][I8_MAX_VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    const vi first = vload_int(start + v * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = first;
  }
  const int32_t *w = d->w;
  for (size_t line = 0; line < d->n_lines; line++) {
    const uint8_t *at = x + d->lines[line];
    for (size_t quad = 0; quad < d->quads; quad++, at += 64, w += 16) i8_depth_step(acc, at, stride, w, P);
  }
  if (wide)
    i8_finish_wide(&d->finish, acc, 0, d->scale, d->offset, y, 64, P);
  else
    i8_finish(&d->finish, acc, 0, d->scale, y, 16, residual, P);
}

typedef void i8_depth_fn(const ert_i8_depthwise *d, const uint8_t *x, const int32_t *start, uint8_t *y,
                         const uint8_t *residual);

#define I8_DEFINE_DEPTH(P)                                                                                \
  static void i8_depth_##P(const ert_i8_depthwise *d, const uint8_t *x, const int32_t *start, uint8_t *y, \
                           const uint8_t *residual) {                                                     \
    if (d->finish.result != ERT_I8_BYTES)                                                                 \
      i8_depth_tile(d, x, d->x_pixel, start, y, NULL, true, P);                                           \
    else if (residual)                                                                                    \
      i8_depth_tile(d, x, d->x_pixel, start, y, residual, false, P);                                      \
    else if (d->x_pixel == 16)                                                                            \
      i8_depth_tile(d, x, 16, start, y, NULL, false, P);                                                  \
    else                                                                                                  \
      i8_depth_tile(d, x, d->x_pixel, start, y, NULL, false, P);                                          \
  }
I8_DEPTH_TILES(I8_DEFINE_DEPTH)

#define I8_DEPTH_ENTRY(P) i8_depth_##P,
static i8_depth_fn *const i8_depth_tiles[] = {NULL, I8_DEPTH_TILES(I8_DEPTH_ENTRY)};

static void i8_depthwise(const ert_i8_depthwise *d) {
  const size_t most = sizeof i8_depth_tiles / sizeof *i8_depth_tiles - 1, tiles = (d->pixels + most - 1) / most;
  int32_t room[16];
  const int32_t *start = i8_start(d->bias, d->w, (ptrdiff_t)(d->n_lines * d->quads * 16), room);
  const ptrdiff_t y_pixel = d->finish.result == ERT_I8_BYTES ? 16 : 64;
  for (size_t row = 0; row < d->rows; row++) {
    const uint8_t *x = d->x + (ptrdiff_t)row * d->x_row, *residual = d->residual;
    uint8_t *y = d->y + (ptrdiff_t)row * d->y_row;
    if (residual) residual += (ptrdiff_t)row * d->residual_row;
    for (size_t tile = 0, begin = 0; tile < tiles; tile++) {
      const size_t count = (d->pixels - begin) / (tiles - tile);
      const ptrdiff_t at = (ptrdiff_t)begin;
      i8_depth_tiles[count](d, x + at * d->x_pixel, start, y + at * y_pixel, residual ? residual + at * 16 : NULL);
      begin += count;
    }
  }
}
