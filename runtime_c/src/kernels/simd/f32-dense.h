/* Dense inner loop: a tile of P pixels by Q blocks of 16 output channels stays in registers while all weights pass by.
 *
 * Each step broadcasts one input value a pixel against the vectors of one weight row, so everything that is a sum of
 * products over "spans" of consecutive inputs (convolution, matrix multiplication) is this one loop. Vectors lie along output
 * channels: nothing is wasted on odd image sizes, and tiles of a row are cut evenly. A row's result is the same whatever tile
 * it falls into, since every output is made of the same chains of multiply-adds in the order of the weights: a long sum is cut
 * into chains of ERT_CHAIN products, whose results are added up, so that rounding errors stay as small as in a blocked
 * matrix product. */
#ifndef ERT_KERNELS_SIMD_F32_DENSE_H
#define ERT_KERNELS_SIMD_F32_DENSE_H

#include <math.h>

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* The tiles X(pixels, blocks) of this instruction set: accumulators, one row of weights and a broadcast fit its registers. */
#if ERT_VECTOR_BYTES == 64
#define DENSE_TILES_1(X) \
  X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1) X(13, 1) X(14, 1)
#define DENSE_TILES_2(X) \
  X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
#define DENSE_TILES_3(X) X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3) X(9, 3)
#define DENSE_TILES_4(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
#define DENSE_TILES_8(X) X(1, 8)
#elif ERT_VECTOR_BYTES == 32
#define DENSE_TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#define DENSE_TILES_2(X) X(1, 2) X(2, 2)
#define DENSE_TILES_3(X)
#define DENSE_TILES_4(X) X(1, 4)
#define DENSE_TILES_8(X)
#elif defined(__aarch64__)
#define DENSE_TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1)
#define DENSE_TILES_2(X) X(1, 2) X(2, 2)
#define DENSE_TILES_3(X)
#define DENSE_TILES_4(X)
#define DENSE_TILES_8(X)
#else
#define DENSE_TILES_1(X) X(1, 1) X(2, 1)
#define DENSE_TILES_2(X)
#define DENSE_TILES_3(X)
#define DENSE_TILES_4(X)
#define DENSE_TILES_8(X)
#endif

enum { DENSE_MAX_P = 14, DENSE_MAX_VECTORS = 8 };

/* Whether a lane of a vector can be multiplied without being broadcast first: then inputs are loaded four at a time. */
#if defined(__aarch64__)
#define DENSE_LANES 1
#else
#define DENSE_LANES 0
#endif

/* Adds `steps` (1 or 4) consecutive inputs of each pixel times as many weight rows. Pixel p starts at at[p / 3] + p % 3 * stride. */
ERT_INLINE void dense_steps(vf acc[DENSE_MAX_P][DENSE_MAX_VECTORS], const float *const at[5], ptrdiff_t stride,
                            const float *w, ptrdiff_t w_block, int steps, int P, int Q) {
  vf inputs[DENSE_MAX_P];
#pragma GCC unroll 14
  for (int p = 0; p < P; p++)
    if (DENSE_LANES && steps == VL) inputs[p] = vload(at[p / 3] + (p % 3) * stride);
#pragma GCC unroll 4
  for (int c = 0; c < steps; c++) {
    vf row[DENSE_MAX_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < Q * V16; v++) row[v] = vload(w + (v / V16) * w_block + c * 16 + (v % V16) * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
      const vf x = vsplat(DENSE_LANES && steps == VL ? inputs[p][c] : at[p / 3][(p % 3) * stride + c]);
#pragma GCC unroll 8
      for (int v = 0; v < Q * V16; v++) acc[p][v] += x * row[v];
    }
  }
}

/* Where vector v of pixel p lies relative to the first one of a tile of y. */
ERT_INLINE ptrdiff_t dense_at(const ert_dense *d, int p, int v) {
  return p * d->y_pixel + (v / V16) * d->y_block + (v % V16) * VL;
}

#define DENSE_EACH(p, v) \
  _Pragma("GCC unroll 14") for (int p = 0; p < P; p++) _Pragma("GCC unroll 8") for (int v = 0; v < Q * V16; v++)

/* One tile. Each step of the weights also asks for one cache line from `ahead`. */
ERT_INLINE void dense_tile(const ert_dense *d, const float *x, const float *w, const float *bias, ptrdiff_t y_at,
                           const float *ahead, int P, int Q) {
  vf acc[DENSE_MAX_P][DENSE_MAX_VECTORS], total[DENSE_MAX_P][DENSE_MAX_VECTORS];
  size_t chain = ERT_CHAIN; /* products until the chain is full */
  bool first = true;
#pragma GCC unroll 8
  for (int v = 0; v < Q * V16; v++) {
    const vf start = bias ? vload(bias + v * VL) : vzero();
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = start;
  }
  const ptrdiff_t stride = d->x_pixel, w_block = d->w_block;
  for (const ert_span *span = d->spans, *end = span + d->n_spans; span < end; span++) {
    const float *at[5];
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) at[i] = x + span->offset + 3 * i * stride;
    for (size_t rest = span->count; rest > 0;) {
      size_t left = rest < chain ? rest : chain;
      rest -= left;
      chain -= left;
      for (; left >= 4; left -= 4, w += 4 * 16, ahead += 16) {
        __builtin_prefetch(ahead, 0, 2);
        dense_steps(acc, at, stride, w, w_block, 4, P, Q);
#pragma GCC unroll 5
        for (int i = 0; i < 5; i++) at[i] += 4;
      }
      for (; left > 0; left--, w += 16) {
        dense_steps(acc, at, stride, w, w_block, 1, P, Q);
#pragma GCC unroll 5
        for (int i = 0; i < 5; i++) at[i]++;
      }
      if (chain == 0) {
        DENSE_EACH(p, v) {
          total[p][v] = first ? acc[p][v] : total[p][v] + acc[p][v];
          acc[p][v] = vzero();
        }
        first = false;
        chain = ERT_CHAIN;
      }
    }
  }
  if (!first) DENSE_EACH(p, v) acc[p][v] += total[p][v];
  if (d->residual) {
    const float *residual = d->residual + y_at;
    DENSE_EACH(p, v) acc[p][v] += vload(residual + dense_at(d, p, v));
  }
  if (d->lo != -INFINITY) {
    const vf lo = vsplat(d->lo);
    DENSE_EACH(p, v) acc[p][v] = vmax(lo, acc[p][v]);
  }
  if (d->hi != INFINITY) {
    const vf hi = vsplat(d->hi);
    DENSE_EACH(p, v) acc[p][v] = vmin(hi, acc[p][v]);
  }
  float *y = d->y + y_at;
  DENSE_EACH(p, v) vstore(y + dense_at(d, p, v), acc[p][v]);
}

typedef void dense_tile_fn(const ert_dense *d, const float *x, const float *w, const float *bias, ptrdiff_t y_at,
                           const float *ahead);

#define DENSE_DEFINE(P, Q)                                                                                \
  static void dense_tile_##P##x##Q(const ert_dense *d, const float *x, const float *w, const float *bias, \
                                   ptrdiff_t y_at, const float *ahead) {                                  \
    dense_tile(d, x, w, bias, y_at, ahead, P, Q);                                                         \
  }
DENSE_TILES_1(DENSE_DEFINE)
DENSE_TILES_2(DENSE_DEFINE)
DENSE_TILES_3(DENSE_DEFINE)
DENSE_TILES_4(DENSE_DEFINE)
DENSE_TILES_8(DENSE_DEFINE)
#undef DENSE_DEFINE

#define DENSE_ENTRY(P, Q) [P] = dense_tile_##P##x##Q,
#define DENSE_COUNT(P, Q) +1
/* By blocks, then by pixels. The tiles of a width are made for every number of pixels up to `most`. */
static const struct dense_width {
  size_t blocks, most;
  dense_tile_fn *tiles[DENSE_MAX_P + 1];
} dense_widths[] = {
    {8, 0 DENSE_TILES_8(DENSE_COUNT), {NULL, DENSE_TILES_8(DENSE_ENTRY)}},
    {4, 0 DENSE_TILES_4(DENSE_COUNT), {NULL, DENSE_TILES_4(DENSE_ENTRY)}},
    {3, 0 DENSE_TILES_3(DENSE_COUNT), {NULL, DENSE_TILES_3(DENSE_ENTRY)}},
    {2, 0 DENSE_TILES_2(DENSE_COUNT), {NULL, DENSE_TILES_2(DENSE_ENTRY)}},
    {1, 0 DENSE_TILES_1(DENSE_COUNT), {NULL, DENSE_TILES_1(DENSE_ENTRY)}},
};
#undef DENSE_ENTRY
#undef DENSE_COUNT

static size_t dense_tiles(const struct dense_width *width, size_t pixels) {
  return (pixels + width->most - 1) / width->most;
}

/* The widest tile that needs no more of them for a row of `pixels` than the longest, and does not leave one block alone. */
static const struct dense_width *dense_width_for(size_t pixels, size_t blocks) {
  const struct dense_width *width = dense_widths, *last = width + sizeof dense_widths / sizeof *width - 1;
  for (; width < last; width++) {
    if (width->blocks > blocks || width->most == 0 || (width->blocks > 2 && width->blocks + 1 == blocks)) continue;
    if (dense_tiles(width, pixels) <= dense_tiles(last, pixels)) break;
  }
  return width;
}

/* While the tiles of some blocks are computed, the weights of the next blocks are fetched into the second-level cache: line by
 * line, so that they arrive long before the first tile that streams through them. */
static void dense_run(const ert_dense *d) {
  for (size_t block = 0; block < d->blocks;) {
    const struct dense_width *width = dense_width_for(d->pixels, d->blocks - block);
    const float *w = d->w + (ptrdiff_t)block * d->w_block, *bias = d->bias ? d->bias + block * 16 : NULL;
    const float *ahead = w + (ptrdiff_t)width->blocks * d->w_block;
    const size_t tiles = dense_tiles(width, d->pixels);
    for (size_t row = 0; row < d->rows; row++) {
      const float *x = d->x + (ptrdiff_t)row * d->x_row;
      const ptrdiff_t y_at = (ptrdiff_t)row * d->y_row + (ptrdiff_t)block * d->y_block;
      for (size_t tile = 0, begin = 0; tile < tiles; tile++) {
        const size_t count = (d->pixels - begin) / (tiles - tile);
        width->tiles[count](d, x + (ptrdiff_t)begin * d->x_pixel, w, bias, y_at + (ptrdiff_t)begin * d->y_pixel, ahead);
        begin += count;
        ahead += d->w_block / 4;
      }
    }
    block += width->blocks;
  }
}

#endif
