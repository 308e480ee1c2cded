/* Direct inner loop: a tile of K filters by P vectors of neighbouring pixels stays in registers while all taps pass by.
 *
 * Each tap loads P vectors of inputs and broadcasts K weights, so that planar rows are read and written as they lie. The
 * vectors of a tile are any P that follow one another in the rows, so that narrow rows fill it too; the last one of a row may
 * be part of a vector. An output is the same whatever tile it falls into: the chains of multiply-adds of f32-dense.h, in the
 * order of the weights. */
#ifndef ERT_KERNELS_SIMD_F32_DIRECT_H
#define ERT_KERNELS_SIMD_F32_DIRECT_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* The tiles X(filters, vectors) of this instruction set: accumulators, inputs and a weight fit its registers. */
#if ERT_VECTOR_BYTES == 64 || defined(__aarch64__)
#define DIRECT_TILES_8(X) X(8, 1) X(8, 2) X(8, 3)
#define DIRECT_TILES_4(X) X(4, 1) X(4, 2) X(4, 3) X(4, 4) X(4, 5) X(4, 6)
#elif ERT_VECTOR_BYTES == 32
#define DIRECT_TILES_8(X)
#define DIRECT_TILES_4(X) X(4, 1) X(4, 2) X(4, 3)
#else
#define DIRECT_TILES_8(X)
#define DIRECT_TILES_4(X) X(4, 1) X(4, 2)
#endif

#define DIRECT_COUNT(K, P) +1

enum {
  DIRECT_MAX_K = 8,
  DIRECT_MAX_P = 6,
  /* Tiles of few filters are computed one after the other for the same vectors, which the first-level cache keeps; those of
   * so many taps beside the weights of a block. */
  DIRECT_TOGETHER = 0 DIRECT_TILES_8(DIRECT_COUNT) == 0,
  DIRECT_PASS = ERT_VECTOR_BYTES == 32 ? 2 * ERT_CHAIN : 0,
};

/* The vectors of a tile, their outputs relative to a filter's first one. */
typedef struct direct_vectors {
  const float *x[DIRECT_MAX_P];
  ptrdiff_t y[DIRECT_MAX_P], residual[DIRECT_MAX_P];
  size_t pixels[DIRECT_MAX_P]; /* at most VL */
} direct_vectors;

/* Adds one tap of all vectors times the weights of K filters. */
ERT_INLINE void direct_step(vf acc[DIRECT_MAX_K][DIRECT_MAX_P], const float *const x[DIRECT_MAX_P], ptrdiff_t tap,
                            const float *w, int K, int P) {
  vf inputs[DIRECT_MAX_P];
#pragma GCC unroll 6
  for (int p = 0; p < P; p++) inputs[p] = vload_now(x[p] + tap);
#if defined(__aarch64__) /* a lane can be multiplied without being broadcast first: weights are loaded four at a time */
  const vf lanes[2] = {vload(w), K > 4 ? vload(w + 4) : vzero()};
#endif
#pragma GCC unroll 8
  for (int k = 0; k < K; k++) {
#if defined(__aarch64__)
    const vf weight = vsplat(lanes[k / 4][k % 4]);
#else
    const vf weight = vsplat_now(w + k);
#endif
#pragma GCC unroll 6
    for (int p = 0; p < P; p++) acc[k][p] = vadd_now(acc[k][p], inputs[p], weight);
  }
}

#define DIRECT_EACH(k, p) \
  _Pragma("GCC unroll 8") for (int k = 0; k < K; k++) _Pragma("GCC unroll 6") for (int p = 0; p < P; p++)

/* Outputs of filters [filter, filter + K), as far as there are, or sums: those at `sums_at`. */
ERT_INLINE void direct_tile(const ert_direct *d, const direct_vectors *at, size_t filter, size_t sums_at, int K,
                            int P) {
  vf acc[DIRECT_MAX_K][DIRECT_MAX_P], total[DIRECT_MAX_K][DIRECT_MAX_P];
  const float *x[DIRECT_MAX_P];
#pragma GCC unroll 6
  for (int p = 0; p < P; p++) x[p] = at->x[p];
#pragma GCC unroll 8
  for (int k = 0; k < K; k++) {
    const vf start = d->bias && !d->begun ? vsplat(d->bias[filter + (size_t)k]) : vzero();
#pragma GCC unroll 6
    for (int p = 0; p < P; p++) acc[k][p] = start;
  }
  if (DIRECT_PASS > 0 && !d->unfinished)
#pragma GCC unroll 8
    for (int k = 0; k < K; k++) { /* outputs are far apart, and their lines arrive meanwhile */
      const float *y = d->y + (ptrdiff_t)(filter + (size_t)k) * d->y_filter;
      __builtin_prefetch(y + at->y[0], 1);
      if (P > 1) __builtin_prefetch(y + at->y[P - 1] + VL - 1, 1);
    }
  const float *w = d->w + filter;
  float *sums = d->begun || d->unfinished ? d->sums + sums_at : NULL;
  bool first = true;
  if (d->begun) {
    DIRECT_EACH(k, p) total[k][p] = vload(sums + (k * P + p) * VL);
    first = false;
  }
  for (const ptrdiff_t *tap = d->taps, *end = tap + d->n_taps; tap < end;) {
    const ptrdiff_t *until = end - tap < ERT_CHAIN ? end : tap + ERT_CHAIN;
    const bool full = until - tap == ERT_CHAIN;
    for (; tap < until; tap++, w += 16) direct_step(acc, x, *tap, w, K, P);
    if (!full) break;
    DIRECT_EACH(k, p) {
      total[k][p] = first ? acc[k][p] : total[k][p] + acc[k][p];
      acc[k][p] = vzero();
    }
    first = false;
  }
  if (!first) DIRECT_EACH(k, p) acc[k][p] += total[k][p];
  if (d->unfinished) {
    DIRECT_EACH(k, p) vstore(sums + (k * P + p) * VL, acc[k][p]);
    return;
  }
  const vf lo = vsplat(d->lo), hi = vsplat(d->hi);
#pragma GCC unroll 8
  for (int k = 0; k < K; k++) {
    if (filter + (size_t)k == d->filters) break;
    const ptrdiff_t number = (ptrdiff_t)filter + k;
    float *y = d->y + number * d->y_filter;
    const float *residual = d->residual ? d->residual + number * d->residual_filter : NULL;
#pragma GCC unroll 6
    for (int p = 0; p < P; p++) {
      const size_t n = at->pixels[p];
      if (residual)
        acc[k][p] += n == VL ? vload(residual + at->residual[p]) : vload_part(residual + at->residual[p], n);
      const vf sum = vmin(hi, vmax(lo, acc[k][p]));
      if (n == VL)
        vstore(y + at->y[p], sum);
      else
        vstore_part(y + at->y[p], sum, n);
    }
  }
}

typedef void direct_tile_fn(const ert_direct *d, const direct_vectors *at, size_t filter, size_t sums_at);

#define DIRECT_DEFINE(K, P)                                                                                         \
  static void direct_tile_##K##x##P(const ert_direct *d, const direct_vectors *at, size_t filter, size_t sums_at) { \
    direct_tile(d, at, filter, sums_at, K, P);                                                                      \
  }
DIRECT_TILES_8(DIRECT_DEFINE)
DIRECT_TILES_4(DIRECT_DEFINE)
#undef DIRECT_DEFINE

#define DIRECT_ENTRY(K, P) [P] = direct_tile_##K##x##P,
/* By filters, then by vectors. The tiles of a height are made for every number of vectors up to `most`. */
static const struct direct_height {
  size_t filters, most;
  direct_tile_fn *tiles[DIRECT_MAX_P + 1];
} direct_heights[] = {
    {8, 0 DIRECT_TILES_8(DIRECT_COUNT), {NULL, DIRECT_TILES_8(DIRECT_ENTRY)}},
    {4, 0 DIRECT_TILES_4(DIRECT_COUNT), {NULL, DIRECT_TILES_4(DIRECT_ENTRY)}},
};
#undef DIRECT_ENTRY
#undef DIRECT_COUNT

/* The next `count` vectors of the rows, from a pixel of a row on. */
ERT_INLINE void direct_take(const ert_direct *d, size_t *row, size_t *pixel, size_t count, direct_vectors *at) {
  for (size_t p = 0; p < count; p++) {
    const size_t left = d->pixels - *pixel;
    at->x[p] = d->x + (ptrdiff_t)*row * d->x_row + (ptrdiff_t)*pixel;
    at->y[p] = (ptrdiff_t)*row * d->y_row + (ptrdiff_t)*pixel;
    at->residual[p] = (ptrdiff_t)*row * d->residual_row + (ptrdiff_t)*pixel;
    at->pixels[p] = left < VL ? left : VL;
    *pixel = left > VL ? *pixel + VL : 0;
    *row += *pixel == 0;
  }
}

/* Filters [filter, end) of all vectors, those of a tile one after the other. */
static void direct_filters(const ert_direct *d, const struct direct_height *height, size_t filter, size_t end) {
  const size_t vectors = d->rows * ((d->pixels + VL - 1) / VL), tiles = (vectors + height->most - 1) / height->most;
  size_t sums_at = filter * vectors * VL;
  for (size_t tile = 0, done = 0, row = 0, pixel = 0; tile < tiles; tile++) {
    const size_t count = (vectors - done) / (tiles - tile);
    direct_vectors at;
    direct_take(d, &row, &pixel, count, &at);
    for (size_t own = filter; own < end; own += height->filters, sums_at += height->filters * count * VL)
      height->tiles[count](d, &at, own, sums_at);
    done += count;
  }
}

static void direct_run(const ert_direct *d) {
  for (size_t filter = 0, end; filter < d->filters; filter = end) {
    const struct direct_height *height = direct_heights + (d->filters - filter <= 4 || direct_heights->most == 0);
    end = DIRECT_TOGETHER ? d->filters : filter + height->filters;
    direct_filters(d, height, filter, end);
  }
}

#endif
