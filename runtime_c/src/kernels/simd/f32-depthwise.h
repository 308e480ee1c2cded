/* Depthwise inner loop: a tile of pixels of one block of 16 channels stays in registers while the taps pass by.
 *
 * Each tap is one vector of weights against a vector of inputs a pixel. Pixels whose taps all lie inside the image share
 * tiles; the few at the borders go one by one with fewer taps. Where a load takes as long as a multiply-add, a tile is one
 * vector of the block by many pixels, and an input that several of them use is loaded once. */
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
#if defined(__aarch64__)
enum { DEPTHWISE_SHARED = 1 };
#else
enum { DEPTHWISE_SHARED = 0 };
#endif

/* Adds three neighbouring taps of `P` pixels that are S inputs apart, each pixel's in their order. */
ERT_INLINE void depthwise_three(vf acc[14][4], const float *x, const float *w, int S, int P, int V) {
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const vf taps[3] = {vload(w + v * VL), vload(w + 16 + v * VL), vload(w + 32 + v * VL)};
#pragma GCC unroll 17
    for (int i = 0; i < (P - 1) * S + 3; i++) {
      const vf input = vload(x + i * 16 + v * VL);
#pragma GCC unroll 3
      for (int j = 0; j < 3; j++)
        if (i >= j && (i - j) % S == 0 && (i - j) / S < P) acc[(i - j) / S][v] += input * taps[j];
    }
  }
}

/* V vectors of the block of `P` pixels from `taps_h` by `taps_w` taps; x and w are at the first tap of the first pixel. */
ERT_INLINE void depthwise_vectors(const ert_depthwise *d, const float *x, const float *w, const float *bias,
                                  int64_t taps_h, int64_t taps_w, ptrdiff_t y_at, int P, int V) {
  vf acc[14][4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const vf start = bias ? vload(bias + v * VL) : vzero();
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = start;
  }
  const ptrdiff_t stride = d->stride_w * 16, step = d->dilation_w * 16;
  const bool three = DEPTHWISE_SHARED && taps_w == 3 && d->dilation_w == 1;
  for (int64_t plane = 0; plane < d->planes; plane++)
    for (int64_t i = 0; i < taps_h; i++) {
      const float *line = x + plane * d->x_plane + i * d->dilation_h * d->x_row;
      const float *row = w + (plane * d->kernel_h + i) * d->kernel_w * 16;
      if (three && stride == 16) {
        depthwise_three(acc, line, row, 1, P, V);
        continue;
      }
      if (three && stride == 32) {
        depthwise_three(acc, line, row, 2, P, V);
        continue;
      }
      const float *at[5];
#pragma GCC unroll 5
      for (int k = 0; k < 5; k++) at[k] = line + 3 * k * stride;
      for (int64_t j = 0; j < taps_w; j++, row += 16) {
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

ERT_INLINE void depthwise_tile(const ert_depthwise *d, const float *x, const float *w, int64_t taps_h, int64_t taps_w,
                               ptrdiff_t y_at, int P) {
  const int V = DEPTHWISE_SHARED && P > 2 ? 1 : V16;
  for (ptrdiff_t at = 0; at < 16; at += V * VL)
    depthwise_vectors(d, x + at, w + at, d->bias ? d->bias + at : NULL, taps_h, taps_w, y_at + at, P, V);
}

typedef void depthwise_tile_fn(const ert_depthwise *d, const float *x, const float *w, int64_t taps_h, int64_t taps_w,
                               ptrdiff_t y_at);

#define DEPTHWISE_DEFINE(P)                                                                              \
  static void depthwise_tile_##P(const ert_depthwise *d, const float *x, const float *w, int64_t taps_h, \
                                 int64_t taps_w, ptrdiff_t y_at) {                                       \
    depthwise_tile(d, x, w, taps_h, taps_w, y_at, P);                                                    \
  }
#define DEPTHWISE_ENTRY(P) depthwise_tile_##P,
DEPTHWISE_TILES(DEPTHWISE_DEFINE)
static depthwise_tile_fn *const depthwise_tiles[] = {NULL, DEPTHWISE_TILES(DEPTHWISE_ENTRY)};
enum { DEPTHWISE_MOST = sizeof depthwise_tiles / sizeof depthwise_tiles[0] - 1 };
#undef DEPTHWISE_ENTRY
#undef DEPTHWISE_DEFINE

static void depthwise_run(const ert_depthwise *d) {
  /* Columns of the output whose taps all lie inside: [inner, outer). */
  const int64_t reach = (d->kernel_w - 1) * d->dilation_w, room = d->width + d->pad_w - reach;
  int64_t inner = (d->pad_w + d->stride_w - 1) / d->stride_w, outer = room > 0 ? (room - 1) / d->stride_w + 1 : 0;
  if (inner > d->out_width) inner = d->out_width;
  if (outer > d->out_width) outer = d->out_width;
  if (outer < inner) outer = inner;
  const int64_t tiles = (outer - inner + DEPTHWISE_MOST - 1) / DEPTHWISE_MOST;
  for (int64_t r = 0; r < d->rows; r++) {
    const int64_t h = (d->first + r) * d->stride_h - d->pad_h;
    int64_t top, bottom, left, right;
    ert_taps_inside(h, d->dilation_h, d->kernel_h, d->height, &top, &bottom);
    const float *line = d->x + (h + top * d->dilation_h - d->x_first) * d->x_row, *w = d->w + top * d->kernel_w * 16;
    const ptrdiff_t y_at = r * d->y_row;
    for (int64_t tile = 0, column = inner; tile < tiles; tile++) {
      const int64_t count = (outer - column) / (tiles - tile);
      depthwise_tiles[count](d, line + (column * d->stride_w - d->pad_w) * 16, w, bottom - top, d->kernel_w,
                             y_at + column * 16);
      column += count;
    }
    for (int64_t column = inner > 0 ? 0 : outer; column < d->out_width;
         column = column + 1 == inner ? outer : column + 1) {
      const int64_t first = column * d->stride_w - d->pad_w;
      ert_taps_inside(first, d->dilation_w, d->kernel_w, d->width, &left, &right);
      depthwise_tile_1(d, line + (first + left * d->dilation_w) * 16, w + left * 16, bottom - top, right - left,
                       y_at + column * 16);
    }
  }
}

#endif
