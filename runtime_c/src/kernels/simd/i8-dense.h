/* Inner loop of bytes: a tile of P pixels by Q blocks of 16 output channels stays in registers while all weights pass by, as
 * in f32-dense.h. Each step takes four inputs of each pixel, which are neighbours, and the weights of those. */

/* The tiles X(pixels, blocks) of this instruction set. */
#if ERT_VECTOR_BYTES == 64
#define I8_TILES_1(X) \
  X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1) X(13, 1) X(14, 1)
#define I8_TILES_2(X) \
  X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
#define I8_TILES_4(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
#define I8_TILES_8(X) X(1, 8)
#elif ERT_I8_DOT
#define I8_TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1)
#define I8_TILES_2(X) X(1, 2) X(2, 2) X(3, 2)
#define I8_TILES_4(X)
#define I8_TILES_8(X)
#elif ERT_VECTOR_BYTES == 32 || defined(__aarch64__)
#define I8_TILES_1(X) X(1, 1) X(2, 1) X(3, 1)
#define I8_TILES_2(X) X(1, 2)
#define I8_TILES_4(X)
#define I8_TILES_8(X)
#else
#define I8_TILES_1(X) X(1, 1) X(2, 1)
#define I8_TILES_2(X)
#define I8_TILES_4(X)
#define I8_TILES_8(X)
#endif

/* Pixel p starts at at[p / 3] + p % 3 * stride. */
ERT_INLINE void i8_step(vi acc[I8_MAX_P][I8_MAX_VECTORS], const uint8_t *const at[5], ptrdiff_t stride,
                        const int32_t *w, ptrdiff_t w_block, int P, int Q) {
#if ERT_I8_DOT
  i8_quad row[I8_MAX_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < Q * V16; v++) row[v] = i8_weights(w + (v / V16) * w_block + (v % V16) * VL);
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) {
    const i8_quad x = i8_input(at[p / 3] + (p % 3) * stride);
#pragma GCC unroll 8
    for (int v = 0; v < Q * V16; v++) acc[p][v] = i8_multiply(acc[p][v], x, row[v]);
  }
#else /* few pixels: their inputs stay in registers while the weights are widened one vector at a time */
  i8_quad x[I8_MAX_P];
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) x[p] = i8_input(at[p / 3] + (p % 3) * stride);
#pragma GCC unroll 8
  for (int v = 0; v < Q * V16; v++) {
    const i8_quad row = i8_weights(w + (v / V16) * w_block + (v % V16) * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = i8_multiply(acc[p][v], x[p], row);
  }
#endif
}

#if ERT_I8_DOT && defined(__aarch64__)
/* Four steps, whose inputs are loaded together. */
ERT_INLINE void i8_four_steps(vi acc[I8_MAX_P][I8_MAX_VECTORS], const uint8_t *const at[5], ptrdiff_t stride,
                              const int32_t *w, ptrdiff_t w_block, int P, int Q) {
  vi x[I8_MAX_P];
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) x[p] = i8_inputs(at[p / 3] + (p % 3) * stride);
#pragma GCC unroll 4
  for (int lane = 0; lane < 4; lane++, w += 16) {
    if (Q == 1) __asm__ volatile("" ::: "memory"); /* GCC loads all weights first and runs out of registers */
#pragma GCC unroll 8
    for (int v = 0; v < Q * V16; v++) {
      const i8_quad row = i8_weights(w + (v / V16) * w_block + (v % V16) * VL);
#pragma GCC unroll 14
      for (int p = 0; p < P; p++) acc[p][v] = i8_multiply_lane(acc[p][v], x[p], lane, row);
    }
  }
}
#endif

/* One tile. Each step also asks for one cache line from `ahead`. */
ERT_INLINE void i8_tile(const ert_i8_dense *d, const uint8_t *x, size_t block, const int32_t *start, uint8_t *y,
                        const uint8_t *residual, const int32_t *ahead, bool wide, int P, int Q) {
  const ert_i8_range used = i8_range_of(d, block, Q);
  const int32_t *w = d->w + (ptrdiff_t)block * d->w_block + used.begin * 4;
  vi acc[I8_MAX_P][I8_MAX_VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < Q * V16; v++) {
    const vi first = vload_int(start + v * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = first;
  }
  const ptrdiff_t stride = d->x_pixel, w_block = d->w_block;
  for (const ert_span *span = d->spans + used.first, *end = d->spans + used.end; span < end; span++) {
    const uint8_t *at[5];
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) at[i] = x + span->offset + 3 * i * stride;
    size_t left = span->count;
#if ERT_I8_DOT && defined(__aarch64__)
    for (; left >= 16; left -= 16, w += 64, ahead += 64) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) __builtin_prefetch(ahead + 16 * i, 0, 2);
      i8_four_steps(acc, at, stride, w, w_block, P, Q);
#pragma GCC unroll 5
      for (int i = 0; i < 5; i++) at[i] += 16;
    }
#endif
    for (; left > 0; left -= 4, w += 16, ahead += 16) {
      __builtin_prefetch(ahead, 0, 2);
      i8_step(acc, at, stride, w, w_block, P, Q);
#pragma GCC unroll 5
      for (int i = 0; i < 5; i++) at[i] += 4;
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; q++) {
    const size_t channel = (block + (size_t)q) * 16;
    uint8_t *to = y + q * d->y_block;
    if (wide)
      i8_finish_wide(&d->finish, acc, q * V16, d->scale + channel, d->offset + channel, to, d->y_pixel, P);
    else
      i8_finish(&d->finish, acc, q * V16, d->scale + channel, to, d->y_pixel,
                residual ? residual + q * d->residual_block : NULL, P);
  }
}

typedef void i8_tile_fn(const ert_i8_dense *d, const uint8_t *x, size_t block, const int32_t *start, uint8_t *y,
                        const uint8_t *residual, const int32_t *ahead);

#define I8_DEFINE(P, Q)                                                                                      \
  static void i8_tile_##P##x##Q(const ert_i8_dense *d, const uint8_t *x, size_t block, const int32_t *start, \
                                uint8_t *y, const uint8_t *residual, const int32_t *ahead) {                 \
    if (d->finish.result != ERT_I8_BYTES)                                                                    \
      i8_tile(d, x, block, start, y, NULL, ahead, true, P, Q);                                               \
    else if (residual)                                                                                       \
      i8_tile(d, x, block, start, y, residual, ahead, false, P, Q);                                          \
    else                                                                                                     \
      i8_tile(d, x, block, start, y, NULL, ahead, false, P, Q);                                              \
  }
I8_TILES_1(I8_DEFINE)
I8_TILES_2(I8_DEFINE)
I8_TILES_4(I8_DEFINE)
I8_TILES_8(I8_DEFINE)

#define I8_ENTRY(P, Q) [P] = i8_tile_##P##x##Q,
#define I8_COUNT(P, Q) +1
/* By blocks, then by pixels. The tiles of a width are made for every number of pixels up to `most`. */
static const struct i8_width {
  size_t blocks, most;
  i8_tile_fn *tiles[I8_MAX_P + 1];
} i8_widths[] = {
    {8, 0 I8_TILES_8(I8_COUNT), {NULL, I8_TILES_8(I8_ENTRY)}},
    {4, 0 I8_TILES_4(I8_COUNT), {NULL, I8_TILES_4(I8_ENTRY)}},
    {2, 0 I8_TILES_2(I8_COUNT), {NULL, I8_TILES_2(I8_ENTRY)}},
    {1, 0 I8_TILES_1(I8_COUNT), {NULL, I8_TILES_1(I8_ENTRY)}},
};

/* The widest tile that needs no more of them for a row of `pixels` than the longest. */
static const struct i8_width *i8_width_for(size_t pixels, size_t blocks) {
  const struct i8_width *width = i8_widths, *last = width + sizeof i8_widths / sizeof *width - 1;
  const size_t fewest = (pixels + last->most - 1) / last->most;
  for (; width < last; width++)
    if (width->blocks <= blocks && width->most > 0 && (pixels + width->most - 1) / width->most <= fewest) break;
  return width;
}

/* What the sums of neighbouring blocks start from. */
static const int32_t *i8_starts(const ert_i8_dense *d, size_t block, size_t blocks, int32_t *room) {
  const ert_i8_range used = i8_range_of(d, block, (int)blocks);
  const ptrdiff_t n = i8_inputs_of(d, used) * 4;
  const int32_t *bias = d->bias + block * 16, *w = d->w + (ptrdiff_t)block * d->w_block + used.begin * 4;
  const int32_t *start = i8_start(bias, w, n, room);
  for (size_t q = 1; q < blocks; q++) i8_start(bias + q * 16, w + (ptrdiff_t)q * d->w_block, n, room + q * 16);
  return start;
}

static void i8_dense(const ert_i8_dense *d) {
#if defined(__x86_64__) && !ERT_I8_DOT
  if (d->wide_x) {
    i8_wide(d);
    return;
  }
#endif
  for (size_t block = 0; block < d->blocks;) {
    const struct i8_width *width = i8_width_for(d->pixels, d->blocks - block);
    const int32_t *ahead = d->w + (ptrdiff_t)(block + width->blocks) * d->w_block;
    const size_t tiles = (d->pixels + width->most - 1) / width->most;
    int32_t room[I8_MAX_VECTORS * VL];
    const int32_t *start = i8_starts(d, block, width->blocks, room);
    for (size_t row = 0; row < d->rows; row++) {
      const uint8_t *x = d->x + (ptrdiff_t)row * d->x_row, *residual = d->residual;
      uint8_t *y = d->y + (ptrdiff_t)row * d->y_row + (ptrdiff_t)block * d->y_block;
      if (residual) residual += (ptrdiff_t)row * d->residual_row + (ptrdiff_t)block * d->residual_block;
      for (size_t tile = 0, begin = 0; tile < tiles; tile++) {
        const size_t count = (d->pixels - begin) / (tiles - tile);
        const ptrdiff_t at = (ptrdiff_t)begin;
        width->tiles[count](d, x + at * d->x_pixel, block, start, y + at * d->y_pixel,
                            residual ? residual + at * 16 : NULL, ahead);
        begin += count;
        ahead += d->w_block / 4;
      }
    }
    block += width->blocks;
  }
}
