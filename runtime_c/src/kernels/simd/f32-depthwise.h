/* Depthwise inner loop: a tile of pixels of one block of 16 channels stays in registers while the taps pass by.
 *
 * Each tap is one vector of weights against a vector of inputs a pixel; inputs outside the image are skipped. Where a load
 * takes as long as a multiply-add, a tile is one vector of the block by many pixels, and an input that several of up to three
 * neighbouring taps use is loaded once. */
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

/* Which taps a tile sums up. */
typedef struct depthwise_taps {
  const float *line; /* of the inputs of the first row of taps */
  const float *w;    /* of the first tap of that row */
  int64_t rows;
  int64_t column; /* that the first tap of the first pixel reads; it may lie outside */
} depthwise_taps;

/* Adds J neighbouring taps of P pixels that are S inputs apart, each pixel's in their order. Inputs are counted from x, that
 * of the first tap and pixel; those from `first` up to `end` lie inside. */
ERT_INLINE void depthwise_inside(vf acc[14][4], const float *x, const float *w, int64_t first, int64_t end, int S,
                                 int J, int P, int V) {
  const int inputs = (P - 1) * S + J;
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    vf taps[3];
#pragma GCC unroll 3
    for (int j = 0; j < J; j++) taps[j] = vload(w + j * 16 + v * VL);
#pragma GCC unroll 29
    for (int i = 0; i < inputs; i++) {
      if (i < first || i >= end) continue;
      const vf input = vload(x + i * 16 + v * VL);
#pragma GCC unroll 3
      for (int j = 0; j < J; j++)
        if (i >= j && (i - j) % S == 0 && (i - j) / S < P) acc[(i - j) / S][v] += input * taps[j];
    }
  }
}

/* The same; where all lie inside nothing is asked. */
ERT_INLINE void depthwise_neighbours(vf acc[14][4], const float *x, const float *w, int64_t first, int64_t end, int S,
                                     int J, int P, int V) {
  const int inputs = (P - 1) * S + J;
  if (first <= 0 && end >= inputs)
    depthwise_inside(acc, x, w, 0, inputs, S, J, P, V);
  else
    depthwise_inside(acc, x, w, first, end, S, J, P, V);
}

/* Adds one tap of P pixels that are `stride` floats apart, of which those from `first` up to `end` lie inside. */
ERT_INLINE void depthwise_alone(vf acc[14][4], const float *x, const float *w, int64_t first, int64_t end,
                                ptrdiff_t stride, int P, int V) {
  const float *at[5];
#pragma GCC unroll 5
  for (int k = 0; k < 5; k++) at[k] = x + 3 * k * stride;
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const vf tap = vload(w + v * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++)
      if (p >= first && p < end) acc[p][v] += vload(at[p / 3] + (p % 3) * stride + v * VL) * tap;
  }
}

/* A row of taps of P pixels: as many neighbours at a time as leave none alone. */
ERT_INLINE void depthwise_row(const ert_depthwise *d, vf acc[14][4], const float *line, const float *w, int64_t column,
                              int P, int V) {
  const bool shared = DEPTHWISE_SHARED && d->dilation_w == 1 && d->stride_w <= 2;
  for (int64_t left = d->kernel_w, taps; left > 0; left -= taps, w += taps * 16, column += taps * d->dilation_w) {
    const float *x = line + column * 16;
    int64_t first = -column, end = d->width - column;
    taps = !shared || left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
    if (taps == 3 && d->stride_w == 1) {
      depthwise_neighbours(acc, x, w, first, end, 1, 3, P, V);
    } else if (taps == 3) {
      depthwise_neighbours(acc, x, w, first, end, 2, 3, P, V);
    } else if (taps == 2 && d->stride_w == 1) {
      depthwise_neighbours(acc, x, w, first, end, 1, 2, P, V);
    } else if (taps == 2) {
      depthwise_neighbours(acc, x, w, first, end, 2, 2, P, V);
    } else {
      if (d->stride_w > 1) ert_taps_inside(column, d->stride_w, P, d->width, &first, &end);
      depthwise_alone(acc, x, w, first, end, d->stride_w * 16, P, V);
    }
  }
}

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
  for (int64_t plane = 0; plane < d->planes; plane++)
    for (int64_t i = 0; i < t->rows; i++)
      depthwise_row(d, acc, t->line + plane * d->x_plane + i * d->dilation_h * d->x_row + lane,
                    t->w + (plane * d->kernel_h + i) * d->kernel_w * 16 + lane, t->column, P, V);
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
  const int64_t tiles = (d->out_width + DEPTHWISE_MOST - 1) / DEPTHWISE_MOST;
  for (int64_t r = 0; r < d->rows; r++) {
    const int64_t h = (d->first + r) * d->stride_h - d->pad_h;
    int64_t top, bottom;
    ert_taps_inside(h, d->dilation_h, d->kernel_h, d->height, &top, &bottom);
    depthwise_taps t = {.line = d->x + (h + top * d->dilation_h - d->x_first) * d->x_row,
                        .w = d->w + top * d->kernel_w * 16,
                        .rows = bottom - top};
    for (int64_t tile = 0, column = 0, count; tile < tiles; tile++, column += count) {
      count = (d->out_width - column) / (tiles - tile);
      t.column = column * d->stride_w - d->pad_w;
      depthwise_tiles[count](d, &t, r * d->y_row + column * 16);
    }
  }
}

#endif
