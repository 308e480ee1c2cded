/* Depthwise convolution of planar rows with all the taps of a kernel of four rows of them or more: a vector of outputs of
 * each of a tile's rows stays in a register while the lines that their taps read pass by. A line is loaded once for each
 * column of taps, and multiplied by up to as many weights as there are rows of taps.
 *
 * An output is one chain of multiply-adds in the order of the taps, that of f32-depthwise.h. */
#ifndef ERT_KERNELS_SIMD_F32_DEPTHWISE_GRID_H
#define ERT_KERNELS_SIMD_F32_DEPTHWISE_GRID_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Some rows of taps, and the lines that a tile's outputs need of them: lines [begin, end), counted from that of the first
 * row of taps of the first output on. */
typedef struct grid_pass {
  const float *x;      /* of the first output */
  const ptrdiff_t *at; /* where the taps of the first row lie from there, and after them those of the second one */
  size_t columns;      /* taps of a row */
  ptrdiff_t line;      /* from a tile's row to the next one */
  const float *w;      /* row after row */
  ptrdiff_t begin, end;
} grid_pass;

/* K rows of taps of R rows of outputs, S rows of taps from one to the next. */
ERT_INLINE void grid_add(vf *sums, const grid_pass *p, int R, int K, int S) {
  vf acc[14];
#pragma GCC unroll 14
  for (int r = 0; r < R; r++) acc[r] = sums[r];
  const size_t columns = p->columns;
  const float *x = p->x, *w[7];
#pragma GCC unroll 7
  for (int k = 0; k < K; k++) w[k] = p->w + (size_t)k * p->columns;
#pragma GCC unroll 40
  for (int i = 0; i < S * (R - 1) + K; i++) {
    const ptrdiff_t *at = p->at + (i % S != 0 ? p->columns : 0);
    if (i >= p->begin && i < p->end) {
      for (size_t t = 0; t < columns; t++) {
        const vf input = nine_keep(vload(x + at[t]));
#pragma GCC unroll 14
        for (int r = 0; r < R; r++)
          if (i >= S * r && i < S * r + K) acc[r] += input * w[i - S * r][t];
      }
    }
    if (i % S == S - 1) x += p->line;
  }
#pragma GCC unroll 14
  for (int r = 0; r < R; r++) sums[r] = acc[r];
}

typedef void grid_add_fn(vf *sums, const grid_pass *p);

#define GRID_DEFINE(R, K, S) \
  static void grid_add_##R##_##K##_##S(vf *sums, const grid_pass *p) { grid_add(sums, p, R, K, S); }
#define GRID_ENTRY(R, K, S) grid_add_##R##_##K##_##S,
#define GRID_TAPS(X, R, S)  X(R, 4, S) X(R, 5, S) X(R, 6, S) X(R, 7, S)
GRID_TAPS(GRID_DEFINE, 7, 1)
static grid_add_fn *const grid_seven[4] = {GRID_TAPS(GRID_ENTRY, 7, 1)};
#if ERT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { GRID_MOST = 14 };
GRID_TAPS(GRID_DEFINE, 14, 1)
GRID_TAPS(GRID_DEFINE, 14, 2)
static grid_add_fn *const grid_most[2][4] = {{GRID_TAPS(GRID_ENTRY, 14, 1)}, {GRID_TAPS(GRID_ENTRY, 14, 2)}};
#else
enum { GRID_MOST = 7 };
GRID_TAPS(GRID_DEFINE, 7, 2)
static grid_add_fn *const grid_most[2][4] = {{GRID_TAPS(GRID_ENTRY, 7, 1)}, {GRID_TAPS(GRID_ENTRY, 7, 2)}};
#endif
#undef GRID_TAPS
#undef GRID_ENTRY
#undef GRID_DEFINE

/* Of the rows of taps of the outputs of a tile, counted from the first one of `row` on, those whose lines lie inside the
 * input: [begin, end). */
ERT_INLINE void grid_inside(const ert_depthwise_planar *d, size_t row, ptrdiff_t *begin, ptrdiff_t *end) {
  const ptrdiff_t first = d->first + (ptrdiff_t)(row * d->stride), step = d->grid->step, left = d->height - first;
  *begin = first < 0 ? (step - 1 - first) / step : 0;
  *end = left > 0 ? (left + step - 1) / step : 0;
}

/* Sums of n rows of outputs. `p` tells of the first row of taps. */
ERT_INLINE void grid_sums(const ert_tap_grid *g, grid_pass p, size_t n, vf *sums) {
  const ptrdiff_t begin = p.begin, end = p.end;
  for (size_t depth = 0; depth < g->depth; depth++)
    for (size_t tap = 0, rows; tap < g->rows; tap += rows) {
      rows = ert_grid_rows(g->rows - tap);
      const ptrdiff_t last = (ptrdiff_t)(g->stride * (n - 1) + rows), left = end - (ptrdiff_t)tap;
      p.begin = begin - (ptrdiff_t)tap, p.end = left < last ? left : last;
      (g->stride == 1 && n <= 7 ? grid_seven : grid_most[g->stride - 1])[rows - 4](sums, &p);
      p.at += rows * g->columns, p.w += rows * g->columns;
    }
}

/* All taps of a channel of which the list has those that are not zero. */
ERT_INLINE const float *grid_complete(const ert_tap_grid *g, const planes_channel *c, const uint8_t *taps,
                                      float w[ERT_MOST_TAPS + 1]) {
  const size_t n = g->depth * g->rows * g->columns;
  if (c->taps == n) return c->w;
  memset(w, 0, n * sizeof *w);
  for (size_t t = 0; t < c->taps; t++) w[taps[t]] = c->w[t];
  return w;
}

/* All rows of a channel. The last vectors of rows come first: what they store past their rows is replaced, unless the next
 * row is of another tile. */
ERT_INLINE void grid_run(const ert_depthwise_planar *d, const planes_channel *c, const uint8_t *taps) {
  float own[ERT_MOST_TAPS + 1];
  const ert_tap_grid *g = d->grid;
  const size_t apart = g->apart;
  grid_pass p = {
      .at = g->at,
      .columns = g->columns,
      .line = (ptrdiff_t)(apart * d->pitch),
      .w = grid_complete(g, c, taps, own),
  };
  for (size_t phase = 0; phase < apart && phase < d->rows; phase++)
    for (size_t row = phase, n; row < d->rows; row += n * apart) {
      const size_t left = (d->rows - row + apart - 1) / apart, tiles = (left + GRID_MOST - 1) / GRID_MOST;
      n = (left + tiles - 1) / tiles;
      grid_inside(d, row, &p.begin, &p.end);
      for (size_t v = (d->pixels + VL - 1) / VL; v-- > 0;) {
        const planes_place to = planes_place_of(d, c, row, v * VL);
        const bool last = v + 1 == to.of_row;
        vf sums[GRID_MOST];
        for (size_t r = 0; r < GRID_MOST; r++) sums[r] = vsplat(c->bias);
        p.x = c->x + row * d->pitch + v * VL;
        grid_sums(g, p, n, sums);
        for (size_t r = 0; r < n; r++) {
          const ptrdiff_t rows = (ptrdiff_t)(r * apart);
          planes_store(&to, rows * d->y_row, rows * d->residual_row, sums[r],
                       last && (apart > 1 || r >= to.whole) ? to.tail : VL);
        }
      }
    }
}

#endif
