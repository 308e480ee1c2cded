/* Depthwise convolution of planar rows with 3 by 3 taps: vectors of outputs of neighbouring rows stay in registers while
 * their inputs pass by, straight from the activations. An input row is loaded once for the outputs of up to three rows.
 *
 * An output is one chain of multiply-adds in the order of the taps, that of f32-depthwise.h. */
#ifndef ERT_KERNELS_SIMD_F32_DEPTHWISE_NINE_H
#define ERT_KERNELS_SIMD_F32_DEPTHWISE_NINE_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Where a vector of outputs lies: at the left end of rows, where all its inputs are inside, or at the right end. NINE_ONLY:
 * rows of one vector; NINE_PAIR: rows of two channels, half a vector each. */
enum { NINE_FIRST, NINE_MIDDLE, NINE_LAST, NINE_ONLY, NINE_PAIR };

/* Rows of a tile at most, as many as registers have room for; and if those are many, half of them. */
#if ERT_VECTOR_BYTES == 64 || defined(__aarch64__)
#define NINE_ROWS(X, S, place) X(14, S, place) X(7, S, place) X(2, S, place) X(1, S, place)
static const size_t nine_rows[] = {14, 7, 2, 1};
#else
#define NINE_ROWS(X, S, place) X(7, S, place) X(2, S, place) X(1, S, place)
static const size_t nine_rows[] = {7, 2, 1};
#endif

/* The same vector, in a register: compilers would rather load it again for every use. */
ERT_INLINE vf nine_keep(vf v) {
#if defined(__aarch64__)
  __asm__("" : "+w"(v));
#else
  __asm__("" : "+v"(v));
#endif
  return v;
}

/* The first n of a vector of inputs, and zeros; n may be more or less than there are. */
ERT_INLINE vf nine_part(const float *x, ptrdiff_t n) {
  return n >= VL ? vload(x) : vload_part(x, n > 0 ? (size_t)n : 0);
}

/* The inputs of a row that a vector of outputs needs. */
typedef struct nine_row {
  const float *x;      /* of the middle tap of the first output */
  const float *before; /* the VL inputs before that, unless there are none */
  ptrdiff_t left;      /* inputs of the row from x on */
  ptrdiff_t pair;      /* to the other channel */
} nine_row;

/* The inputs of the three taps of a row, the first of which is one to the left. */
ERT_INLINE void nine_inputs(const nine_row *row, int S, int place, vf in[3]) {
  const float *x = row->x;
  const vf zero = vzero();
  if (S == 1 && place == NINE_MIDDLE) {
    in[0] = vload(x - 1), in[1] = vload(x), in[2] = vload(x + 1);
  } else if (S == 1) {
    in[1] = place == NINE_FIRST  ? vload(x)
            : place == NINE_LAST ? nine_part(x, row->left)
                                 : vload_part(x, (size_t)row->left);
#if ERT_VECTOR_BYTES == 64
    if (place == NINE_PAIR)
      in[1] = (vf)_mm512_shuffle_f32x4((__m512)in[1], (__m512)vload_part(x + row->pair, (size_t)row->left), 0x44);
#endif
    in[0] = pool_later(place == NINE_LAST ? vload(row->before) : zero, in[1]);
    in[2] = place == NINE_FIRST ? vload(x + 1) : pool_earlier(in[1], zero);
  } else {
    vf a, b;
    if (place == NINE_LAST || place == NINE_ONLY)
      a = nine_part(x, row->left), b = nine_part(x + VL, row->left - VL);
    else if (place == NINE_PAIR)
      a = vload_part(x, (size_t)row->left), b = vload_part(x + row->pair, (size_t)row->left);
    else
      a = vload(x), b = vload(x + VL);
    in[1] = pool_every_second(a, b, 0);
    in[2] = pool_every_second(a, b, 1);
    in[0] = pool_later(place == NINE_MIDDLE || place == NINE_LAST ? vload(row->before) : zero, in[2]);
  }
}

/* R rows of the vector at `column`. The other channel of a pair is c[1]. */
ERT_INLINE void nine_tile(const ert_depthwise_planar *d, const planes_channel *c, size_t row, size_t column, int R,
                          int S, int place) {
  const bool pair = place == NINE_PAIR;
  const ptrdiff_t first = d->first + (ptrdiff_t)row * S, height = d->height, x_row = d->row,
                  col = S * (ptrdiff_t)column;
  vf acc[14], w[9];
#pragma GCC unroll 9
  for (int t = 0; t < 9; t++) w[t] = vsplat(c->w[t]);
  vf start = vsplat(c->bias);
#if ERT_VECTOR_BYTES == 64
  if (pair) {
#pragma GCC unroll 9
    for (int t = 0; t < 9; t++) w[t] = (vf)_mm512_mask_broadcastss_ps((__m512)w[t], 0xff00, _mm_load_ss(c[1].w + t));
    start = (vf)_mm512_mask_broadcastss_ps((__m512)start, 0xff00, _mm_load_ss(&c[1].bias));
  }
#endif
#pragma GCC unroll 14
  for (int r = 0; r < R; r++) acc[r] = start;
#pragma GCC unroll 29
  for (int i = 0; i < S * (R - 1) + 3; i++) {
    const ptrdiff_t at = first + i;
    if ((i == 0 && at < 0) || (i == S * (R - 1) + 2 && at >= height)) continue;
    const float *x = c->x + at * x_row + col;
    const nine_row from = {x, x - VL, d->width - col, pair ? c[1].x - c->x : 0};
    vf in[3];
    nine_inputs(&from, S, place, in);
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) {
      const vf input = nine_keep(in[k]);
#pragma GCC unroll 14
      for (int r = 0; r < R; r++)
        if (i >= S * r && i < S * r + 3) acc[r] += input * w[3 * (i - S * r) + k];
    }
  }
  planes_place to = planes_place_of(d, c, row, column);
  const ptrdiff_t y_row = d->y_row, residual_row = d->residual_row;
#if ERT_VECTOR_BYTES == 64
  if (pair) {
    const planes_place other = planes_place_of(d, c + 1, row, column);
#pragma GCC unroll 14
    for (int r = 0; r < R; r++) {
      planes_store(&to, r * y_row, r * residual_row, acc[r], to.tail);
      planes_store(&other, r * y_row, r * residual_row, VSWAP(acc[r], 8), to.tail);
    }
    return;
  }
#endif
  const bool last = column / VL + 1 == to.of_row;
#pragma GCC unroll 14
  for (int r = 0; r < R; r++)
    planes_store(&to, r * y_row, r * residual_row, acc[r], last && (size_t)r >= to.whole ? to.tail : VL);
}

#define NINE_DEFINE(R, S, place)                                                                           \
  static void nine_##S##_##place##_##R(const ert_depthwise_planar *d, const planes_channel *c, size_t row, \
                                       size_t column) {                                                    \
    nine_tile(d, c, row, column, R, S, place);                                                             \
  }
#define NINE_ENTRY(R, S, place) nine_##S##_##place##_##R,
#if ERT_VECTOR_BYTES == 64
#define NINE_PLACES(X, S) X(S, NINE_FIRST) X(S, NINE_MIDDLE) X(S, NINE_LAST) X(S, NINE_ONLY) X(S, NINE_PAIR)
#else
#define NINE_PLACES(X, S) X(S, NINE_FIRST) X(S, NINE_MIDDLE) X(S, NINE_LAST) X(S, NINE_ONLY)
#endif
#define NINE_DEFINES(S, place) NINE_ROWS(NINE_DEFINE, S, place)
#define NINE_ENTRIES(S, place) {NINE_ROWS(NINE_ENTRY, S, place)},
NINE_PLACES(NINE_DEFINES, 1)
NINE_PLACES(NINE_DEFINES, 2)
static planes_tile_fn *const nine_tiles[2][5][sizeof nine_rows / sizeof *nine_rows] = {{NINE_PLACES(NINE_ENTRIES, 1)},
                                                                                       {NINE_PLACES(NINE_ENTRIES, 2)}};
#undef NINE_ENTRIES
#undef NINE_DEFINES
#undef NINE_PLACES
#undef NINE_ENTRY
#undef NINE_DEFINE
#undef NINE_ROWS

/* Whether rows are so short that those of two channels fit a vector, with a zero behind each. */
ERT_INLINE bool nine_pairs(const ert_depthwise_planar *d) {
  return ERT_VECTOR_BYTES == 64 && d->width < (ptrdiff_t)(d->x_step * 8) && d->pixels <= 8;
}

/* All rows of a channel, or of two. The last vectors of rows come first: what they store past their rows is replaced. */
ERT_INLINE void nine_run(const ert_depthwise_planar *d, const planes_channel *c, bool pair) {
  const ptrdiff_t S = (ptrdiff_t)d->x_step, reach = S == 1 ? VL + 1 : 2 * VL;
  for (size_t r = 0; r < d->rows;) {
    size_t size = 0;
    while (nine_rows[size] > d->rows - r) size++;
    for (size_t v = (d->pixels + VL - 1) / VL; v-- > 0;) {
      const bool inside = (ptrdiff_t)(v * VL) * S + reach <= d->width;
      const int end = v == 0 ? NINE_ONLY : NINE_LAST, place = inside ? v == 0 ? NINE_FIRST : NINE_MIDDLE : end;
      nine_tiles[S - 1][pair ? NINE_PAIR : place][size](d, c, r, v * VL);
    }
    r += nine_rows[size];
  }
}

#endif
