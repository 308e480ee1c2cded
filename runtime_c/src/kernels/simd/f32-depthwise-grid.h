/* Depthwise convolution of planar rows with all the taps of a kernel of four rows of them or more: one or two vectors of
 * outputs of each of a tile's rows stay in registers while the lines that their taps read pass by. A line is loaded once for
 * each column of taps, and multiplied by up to as many weights as there are rows of taps.
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
  bool first, last; /* of an output's rows of taps: sums begin with the bias, and end as outputs */
  float bias;
  planes_place to;
  size_t rows, whole; /* of outputs, and how many of them may be stored with what lies behind them */
  ptrdiff_t y_row, residual_row;
} grid_pass;

/* A tile's outputs, V vectors of each row. */
ERT_INLINE void grid_store(const grid_pass *p, const vf *sums, int R, int V) {
  ptrdiff_t y = 0, residual = 0;
#pragma GCC unroll 14
  for (int r = 0; r < R; r++, y += p->y_row, residual += p->residual_row) {
    if ((size_t)r == p->rows) break;
#pragma GCC unroll 2
    for (int v = 0; v < V; v++)
      planes_store(&p->to, y + v * VL, residual + v * VL, sums[r * V + v],
                   v + 1 < V || (size_t)r < p->whole ? VL : p->to.tail);
  }
}

/* K rows of taps of R rows of V vectors of outputs, S rows of taps from one to the next. */
ERT_INLINE void grid_add(vf *sums, const grid_pass *p, int R, int V, int K, int S) {
  vf acc[14];
  const vf bias = vsplat(p->bias);
#pragma GCC unroll 14
  for (int i = 0; i < R * V; i++) acc[i] = bias;
  if (!p->first) {
#pragma GCC unroll 14
    for (int i = 0; i < R * V; i++) acc[i] = sums[i];
  }
  const size_t columns = p->columns;
  const float *x = p->x, *w[7];
#pragma GCC unroll 7
  for (int k = 0; k < K; k++) w[k] = p->w + (size_t)k * p->columns;
#pragma GCC unroll 40
  for (int i = 0; i < S * (R - 1) + K; i++) {
    const ptrdiff_t *at = p->at + (i % S != 0 ? p->columns : 0);
    if (i >= p->begin && i < p->end) {
      for (size_t t = 0; t < columns; t++) {
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) {
          const vf input = nine_keep(vload(x + at[t] + v * VL));
#pragma GCC unroll 14
          for (int r = 0; r < R; r++)
            if (i >= S * r && i < S * r + K) acc[r * V + v] += input * w[i - S * r][t];
        }
      }
    }
    if (i % S == S - 1) x += p->line;
  }
  if (p->last) {
    grid_store(p, acc, R, V);
    return;
  }
#pragma GCC unroll 14
  for (int i = 0; i < R * V; i++) sums[i] = acc[i];
}

typedef void grid_add_fn(vf *sums, const grid_pass *p);

#define GRID_DEFINE(R, V, K, S) \
  static void grid_add_##R##_##V##_##K##_##S(vf *sums, const grid_pass *p) { grid_add(sums, p, R, V, K, S); }
#define GRID_ENTRY(R, V, K, S) [K] = grid_add_##R##_##V##_##K##_##S,
#define GRID_TAPS(X, R, V, S)  X(R, V, 4, S) X(R, V, 5, S) X(R, V, 6, S) X(R, V, 7, S)
GRID_TAPS(GRID_DEFINE, 7, 1, 1)
static grid_add_fn *const grid_seven[8] = {GRID_TAPS(GRID_ENTRY, 7, 1, 1)};
/* By the stride and the rows of taps: of GRID_MOST rows of one vector, and of half as many of two, where twice as many sums
 * are under way at a time. */
#if ERT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { GRID_MOST = 14, GRID_TWO = 2 };
GRID_TAPS(GRID_DEFINE, 14, 1, 1)
GRID_TAPS(GRID_DEFINE, 14, 1, 2)
GRID_TAPS(GRID_DEFINE, 7, 2, 1)
GRID_TAPS(GRID_DEFINE, 7, 2, 2)
static grid_add_fn *const grid_most[2][8] = {{GRID_TAPS(GRID_ENTRY, 14, 1, 1)}, {GRID_TAPS(GRID_ENTRY, 14, 1, 2)}};
static grid_add_fn *const grid_two[2][8] = {{GRID_TAPS(GRID_ENTRY, 7, 2, 1)}, {GRID_TAPS(GRID_ENTRY, 7, 2, 2)}};
#else
enum { GRID_MOST = 7, GRID_TWO = 1 };
GRID_TAPS(GRID_DEFINE, 7, 1, 2)
static grid_add_fn *const grid_most[2][8] = {{GRID_TAPS(GRID_ENTRY, 7, 1, 1)}, {GRID_TAPS(GRID_ENTRY, 7, 1, 2)}};
static grid_add_fn *const (*const grid_two)[8] = grid_most;
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

/* One tile, `vectors` wide, whose rows of taps [begin, end) have lines. */
ERT_INLINE void grid_tile(const ert_tap_grid *g, grid_pass *p, size_t vectors, const float *w, ptrdiff_t begin,
                          ptrdiff_t end) {
  vf sums[14];
  grid_add_fn *const *add = (vectors == 2 ? grid_two : grid_most)[g->stride > 1];
  if (vectors == 1 && g->stride == 1 && p->rows <= 7) add = grid_seven;
  p->at = g->at, p->w = w, p->first = true;
  for (size_t depth = 1; depth <= g->depth; depth++)
    for (size_t tap = 0, rows; tap < g->rows; tap += rows) {
      rows = ert_grid_rows(g->rows - tap);
      const ptrdiff_t last = (ptrdiff_t)(g->stride * (p->rows - 1) + rows), left = end - (ptrdiff_t)tap;
      p->begin = begin - (ptrdiff_t)tap, p->end = left < last ? left : last;
      p->last = depth == g->depth && tap + rows == g->rows;
      add[rows](sums, p);
      p->at += rows * g->columns, p->w += rows * g->columns, p->first = false;
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

/* All rows of the vectors [first, end) of a channel, so many at a time. */
ERT_INLINE void grid_columns(const ert_depthwise_planar *d, const planes_channel *c, const float *w, size_t first,
                             size_t end, size_t vectors) {
  const ert_tap_grid *g = d->grid;
  const size_t apart = g->apart, most = GRID_MOST / vectors;
  const ptrdiff_t wide = (ptrdiff_t)vectors * VL;
  grid_pass p = {
      .columns = g->columns,
      .line = (ptrdiff_t)(apart * d->pitch),
      .bias = c->bias,
      .y_row = (ptrdiff_t)apart * d->y_row,
      .residual_row = (ptrdiff_t)apart * d->residual_row,
  };
  for (size_t phase = 0; phase < apart && phase < d->rows; phase++)
    for (size_t row = phase; row < d->rows; row += p.rows * apart) {
      const size_t left = (d->rows - row + apart - 1) / apart, tiles = (left + most - 1) / most;
      ptrdiff_t begin, inside;
      p.rows = (left + tiles - 1) / tiles;
      grid_inside(d, row, &begin, &inside);
      p.to = planes_place_of(d, c, row, end * VL);
      p.x = c->x + row * d->pitch + end * VL;
      p.whole = end < p.to.of_row ? p.rows : apart > 1 ? 0 : p.to.whole;
      for (size_t v = end; v > first; v -= vectors, p.whole = p.rows) {
        p.x -= wide, p.to.y -= wide;
        if (p.to.residual) p.to.residual -= wide;
        grid_tile(g, &p, vectors, w, begin, inside);
      }
    }
}

/* All rows of a channel. The last vectors of rows come first: what they store past their rows is replaced, unless the next
 * row is of another tile. */
ERT_INLINE void grid_run(const ert_depthwise_planar *d, const planes_channel *c, const uint8_t *taps) {
  float own[ERT_MOST_TAPS + 1];
  const float *w = grid_complete(d->grid, c, taps, own);
  const size_t of_row = (d->pixels + VL - 1) / VL, twos = of_row / GRID_TWO * GRID_TWO;
  if (twos < of_row) grid_columns(d, c, w, twos, of_row, 1);
  if (twos > 0) grid_columns(d, c, w, 0, twos, GRID_TWO);
}

#endif
