/* Depthwise inner loop: a tile of pixels of one block of 16 channels stays in registers while the taps pass by.
 *
 * Each tap is one vector of weights against a vector of inputs a pixel. Pixels whose taps all lie inside the image share
 * tiles; the few at the borders go one by one with fewer taps. Where a load takes as long as a multiply-add, a tile is one
 * vector of the block by many pixels, and an input that several of three neighbouring taps use is loaded once; such tiles
 * also take the pixels at the borders that lack one tap. */
#ifndef ERT_KERNELS_SIMD_F32_DEPTHWISE_H
#define ERT_KERNELS_SIMD_F32_DEPTHWISE_H

#include "kernels/conv_geometry.h"
#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Pixels of a tile. */
#if ERT_VECTOR_BYTES == 64
#define DEPTHWISE_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif ERT_VECTOR_BYTES == 32
#define DEPTHWISE_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#elif defined(__aarch64__)
#define DEPTHWISE_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#define DEPTHWISE_TILES(X) X(1) X(2)
#endif

/* Whether a load takes as long as a multiply-add. */
#if defined(__aarch64__) || ERT_VECTOR_BYTES == 64
enum { DEPTHWISE_SHARED = 1 };
#else
enum { DEPTHWISE_SHARED = 0 };
#endif

/* Taps outside the image of the pixels of a tile: the first one's first, the last one's last. */
enum { DEPTHWISE_LEFT = 1, DEPTHWISE_RIGHT = 2 };

/* Adds three neighbouring taps of `P` pixels that are S inputs apart, each pixel's in their order. The first one lies `at`
 * floats from x. */
ERT_INLINE void depthwise_three(vf acc[14][4], const float *x, ptrdiff_t at, const float *w, int outside, int S, int P,
                                int V) {
  const int inputs = (P - 1) * S + 3;
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const vf taps[3] = {vload(w + v * VL), vload(w + 16 + v * VL), vload(w + 32 + v * VL)};
#pragma GCC unroll 29
    for (int i = 0; i < inputs; i++) {
      if ((i == 0 && outside & DEPTHWISE_LEFT) || (i == inputs - 1 && outside & DEPTHWISE_RIGHT)) continue;
      const vf input = vload(x + at + i * 16 + v * VL);
#pragma GCC unroll 3
      for (int j = 0; j < 3; j++)
        if (i >= j && (i - j) % S == 0 && (i - j) / S < P) acc[(i - j) / S][v] += input * taps[j];
    }
  }
}

/* Which taps a tile sums up. */
typedef struct depthwise_taps {
  const float *line; /* of the inputs of the first row of taps */
  ptrdiff_t at;      /* of the first tap of the first pixel in it */
  const float *w;    /* of the first tap */
  int64_t rows, columns;
  int outside; /* three columns only */
} depthwise_taps;

/* V vectors of the block, from lane `lane` on, of `P` pixels. */
ERT_INLINE void depthwise_vectors(const ert_depthwise *d, const depthwise_taps *t, ptrdiff_t lane, ptrdiff_t y_at,
                                  int P, int V) {
  const float *bias = d->bias ? d->bias + lane : NULL;
  vf acc[14][4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const vf start = bias ? vload(bias + v * VL) : vzero();
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = start;
  }
  const ptrdiff_t stride = d->stride_w * 16, step = d->dilation_w * 16;
  const bool three = DEPTHWISE_SHARED && t->columns == 3 && d->dilation_w == 1;
  for (int64_t plane = 0; plane < d->planes; plane++)
    for (int64_t i = 0; i < t->rows; i++) {
      const float *line = t->line + plane * d->x_plane + i * d->dilation_h * d->x_row + lane;
      const float *row = t->w + (plane * d->kernel_h + i) * d->kernel_w * 16 + lane;
      if (three && stride == 16) {
        depthwise_three(acc, line, t->at, row, t->outside, 1, P, V);
        continue;
      }
      if (three && stride == 32) {
        depthwise_three(acc, line, t->at, row, t->outside, 2, P, V);
        continue;
      }
      const float *at[5];
#pragma GCC unroll 5
      for (int k = 0; k < 5; k++) at[k] = line + t->at + 3 * k * stride;
      for (int64_t j = 0; j < t->columns; j++, row += 16) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
          const vf tap = vload(row + v * VL);
#pragma GCC unroll 14
          for (int p = 0; p < P; p++) acc[p][v] += vload(at[p / 3] + (p % 3) * stride + v * VL) * tap;
        }
#pragma GCC unroll 5
        for (int k = 0; k < 5; k++) at[k] += step;
      }
    }
  y_at += lane;
  float *y = d->y + y_at;
  const vf lo = vsplat(d->lo), hi = vsplat(d->hi);
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      vf sum = acc[p][v];
      if (d->residual) sum += vload(d->residual + y_at + p * 16 + v * VL);
      vstore(y + p * 16 + v * VL, vmin(hi, vmax(lo, sum)));
    }
  }
}

typedef void depthwise_tile_fn(const ert_depthwise *d, const depthwise_taps *t, ptrdiff_t y_at);

#define DEPTHWISE_DEFINE(P)                                                                         \
  static void depthwise_tile_##P(const ert_depthwise *d, const depthwise_taps *t, ptrdiff_t y_at) { \
    enum { V = DEPTHWISE_SHARED && (P) > 2 ? 1 : V16 };                                             \
    for (ptrdiff_t lane = 0; lane < 16; lane += V * VL) depthwise_vectors(d, t, lane, y_at, P, V);  \
  }
#define DEPTHWISE_ENTRY(P) depthwise_tile_##P,
DEPTHWISE_TILES(DEPTHWISE_DEFINE)
static depthwise_tile_fn *const depthwise_tiles[] = {NULL, DEPTHWISE_TILES(DEPTHWISE_ENTRY)};
enum { DEPTHWISE_MOST = sizeof depthwise_tiles / sizeof depthwise_tiles[0] - 1 };
#undef DEPTHWISE_ENTRY
#undef DEPTHWISE_DEFINE

static void depthwise_run(const ert_depthwise *d) {
  /* Columns of the output whose taps all lie inside: [begin, end). */
  const int64_t reach = (d->kernel_w - 1) * d->dilation_w, room = d->width + d->pad_w - reach;
  int64_t begin = (d->pad_w + d->stride_w - 1) / d->stride_w, end = room > 0 ? (room - 1) / d->stride_w + 1 : 0;
  if (begin > d->out_width) begin = d->out_width;
  if (end > d->out_width) end = d->out_width;
  if (end < begin) end = begin;
  int left_outside = 0, right_outside = 0;
  if (DEPTHWISE_SHARED && d->kernel_w == 3 && d->dilation_w == 1 && d->stride_w <= 2 && begin < end) {
    if (d->pad_w == 1) begin = 0, left_outside = DEPTHWISE_LEFT;
    if (end == d->out_width - 1 && end * d->stride_w - d->pad_w + 2 == d->width) end++, right_outside = DEPTHWISE_RIGHT;
  }
  const int64_t tiles = (end - begin + DEPTHWISE_MOST - 1) / DEPTHWISE_MOST;
  for (int64_t r = 0; r < d->rows; r++) {
    const int64_t h = (d->first + r) * d->stride_h - d->pad_h;
    int64_t top, bottom, left, right;
    ert_taps_inside(h, d->dilation_h, d->kernel_h, d->height, &top, &bottom);
    depthwise_taps t = {.line = d->x + (h + top * d->dilation_h - d->x_first) * d->x_row,
                        .w = d->w + top * d->kernel_w * 16,
                        .rows = bottom - top,
                        .columns = d->kernel_w};
    const ptrdiff_t y_at = r * d->y_row;
    for (int64_t tile = 0, column = begin; tile < tiles; tile++) {
      const int64_t count = (end - column) / (tiles - tile);
      t.at = (column * d->stride_w - d->pad_w) * 16;
      t.outside = (tile == 0 ? left_outside : 0) | (tile == tiles - 1 ? right_outside : 0);
      depthwise_tiles[count](d, &t, y_at + column * 16);
      column += count;
    }
    depthwise_taps border = t;
    border.outside = 0;
    for (int64_t column = begin > 0 ? 0 : end; column < d->out_width; column = column + 1 == begin ? end : column + 1) {
      const int64_t first = column * d->stride_w - d->pad_w;
      ert_taps_inside(first, d->dilation_w, d->kernel_w, d->width, &left, &right);
      border.at = (first + left * d->dilation_w) * 16;
      border.w = t.w + left * 16;
      border.columns = right - left;
      depthwise_tile_1(d, &border, y_at + column * 16);
    }
  }
}

#endif
