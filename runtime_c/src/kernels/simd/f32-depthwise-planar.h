/* Depthwise inner loop over planar rows: a tile of vectors of pixels of one channel stays in registers while its taps pass by.
 *
 * A channel's inputs are copied to scratch first, zero-padded and sorted by the phases of the strides, so that the taps of
 * neighbouring outputs are neighbours. An output is one chain of multiply-adds in the order of the taps, that of
 * f32-depthwise.h. Taps that are zero are not in the list, and cost nothing. */
#ifndef ERT_KERNELS_SIMD_F32_DEPTHWISE_PLANAR_H
#define ERT_KERNELS_SIMD_F32_DEPTHWISE_PLANAR_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Vectors of a tile. */
#if ERT_VECTOR_BYTES == 64
#define PLANES_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif ERT_VECTOR_BYTES == 32 || defined(__aarch64__)
#define PLANES_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
#else
#define PLANES_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

/* A channel whose inputs lie in scratch. */
typedef struct planes_channel {
  const float *x;      /* first line in scratch */
  const ptrdiff_t *at; /* where its taps' inputs lie, relative to an output's place */
  const float *w;
  size_t taps;
  float bias;
  float *y;
  const float *residual;
  size_t masked; /* last rows that are stored without what lies behind them: it is not theirs to replace */
} planes_channel;

/* The lines of one phase of a channel; nothing past their ends is read. Up to a vector past the end of each becomes zero. */
ERT_INLINE void planes_copy(const ert_depthwise_planar *d, const ert_phase *phase, const float *x, float *scratch) {
  const size_t n = phase->columns, step = d->x_step, pitch = d->pitch;
  const size_t full = step == 1 ? n / VL * VL : (n - 1) / VL * VL, rest = n - full;
  const ptrdiff_t x_row = d->x_row;
  const float *from = x + phase->from;
  float *to = scratch + phase->to;
  if (step == 1) {
    for (size_t r = phase->rows; r > 0; r--, from += x_row, to += pitch) {
      for (size_t i = 0; i < full; i += VL) vstore(to + i, vload(from + i));
      if (rest > 0) vstore(to + full, vload_part(from + full, rest));
    }
  } else if (step == 2) {
    const size_t left = 2 * rest - 1, first = left < VL ? left : VL;
    for (size_t r = phase->rows; r > 0; r--, from += x_row, to += pitch) {
      for (size_t i = 0; i < full; i += VL)
        vstore(to + i, pool_every_second(vload(from + 2 * i), vload(from + 2 * i + VL), 0));
      const vf a = vload_part(from + 2 * full, first);
      const vf b = left > VL ? vload_part(from + 2 * full + VL, left - VL) : vzero();
      vstore(to + full, pool_every_second(a, b, 0));
    }
  } else {
    for (size_t r = phase->rows; r > 0; r--, from += x_row, to += pitch)
      for (size_t i = 0; i < n; i++) to[i] = from[i * step];
  }
}

/* Where a vector of outputs is stored. Its last lanes are none if it is the last one of a row: of the first `whole` rows
 * they are stored nevertheless, where later rows follow. */
typedef struct planes_place {
  float *y;
  const float *residual;
  size_t of_row, tail; /* vectors of a row, and pixels of the last of them */
  size_t whole;        /* counted from this row on */
  vf lo, hi;
} planes_place;

ERT_INLINE planes_place planes_place_of(const ert_depthwise_planar *d, const planes_channel *c, size_t row,
                                        size_t column) {
  const size_t of_row = (d->pixels + VL - 1) / VL, tail = d->pixels - (of_row - 1) * VL;
  return (planes_place){
      .y = c->y + (ptrdiff_t)row * d->y_row + (ptrdiff_t)column,
      .residual = c->residual ? c->residual + (ptrdiff_t)row * d->residual_row + (ptrdiff_t)column : NULL,
      .of_row = of_row,
      .tail = tail,
      .whole = d->rows > c->masked + row ? d->rows - c->masked - row : 0,
      .lo = vsplat(d->lo),
      .hi = vsplat(d->hi),
  };
}

/* The first n lanes of a sum, y_at and residual_at from the place. */
ERT_INLINE void planes_store(const planes_place *at, ptrdiff_t y_at, ptrdiff_t residual_at, vf sum, size_t n) {
  if (at->residual) sum += n == VL ? vload(at->residual + residual_at) : vload_part(at->residual + residual_at, n);
  sum = vmin(at->hi, vmax(at->lo, sum));
  if (n == VL)
    vstore(at->y + y_at, sum);
  else
    vstore_part(at->y + y_at, sum, n);
}

/* P vectors of neighbouring rows, from vector `vector` of the first one on. */
ERT_INLINE void planes_store_rows(const planes_place *at, ptrdiff_t y_row, ptrdiff_t residual_row, const vf *sums,
                                  int P, size_t vector) {
  ptrdiff_t y = 0, residual = 0, column = 0;
  size_t row = 0;
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) {
    const bool last = ++vector == at->of_row;
    planes_store(at, y + column, residual + column, sums[p], last && row >= at->whole ? at->tail : VL);
    column += VL;
    if (last) y += y_row, residual += residual_row, column = 0, vector = 0, row++;
  }
}

/* The sums of P vectors of outputs, `apart` floats in scratch, of which the first one's inputs are at x. */
ERT_INLINE void planes_sums(const planes_channel *c, const float *x, size_t apart, vf *acc, int P) {
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) acc[p] = vsplat(c->bias);
  for (size_t t = 0; t < c->taps; t++) {
    const float *from = x + c->at[t];
    const vf w = vsplat(c->w[t]);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++, from += apart) acc[p] += vload(from) * w;
  }
}

/* P vectors of outputs whose inputs follow one another in scratch; the first is the one at `column` of `row`. */
ERT_INLINE void planes_tile(const ert_depthwise_planar *d, const planes_channel *c, size_t row, size_t column, int P) {
  planes_place at = planes_place_of(d, c, row, column);
  vf acc[14];
  planes_sums(c, c->x + row * d->pitch + column, VL, acc, P);
  const ptrdiff_t y_row = d->y_row, residual_row = d->residual_row;
#if ERT_VECTOR_BYTES == 64
  if (d->pitch < VL) { /* two rows a vector */
    const size_t left = d->rows - row, n = d->pixels;
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
      planes_store(&at, 2 * p * y_row, 2 * p * residual_row, acc[p], n);
      if (2 * (size_t)p + 1 == left) break;
      planes_store(&at, (2 * p + 1) * y_row, (2 * p + 1) * residual_row, VSWAP(acc[p], 8), n);
    }
    return;
  }
#endif
  if (at.of_row > 1) {
    planes_store_rows(&at, y_row, residual_row, acc, P, column / VL);
    return;
  }
  if (at.residual) {
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) planes_store(&at, p * y_row, p * residual_row, acc[p], at.tail);
    return;
  }
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) planes_store(&at, p * y_row, 0, acc[p], (size_t)p < at.whole ? VL : at.tail);
}

/* A vector of each of P neighbouring rows of outputs. */
ERT_INLINE void planes_column(const ert_depthwise_planar *d, const planes_channel *c, size_t row, size_t column,
                              int P) {
  const planes_place at = planes_place_of(d, c, row, column);
  const size_t left = d->pixels - column, n = left < VL ? left : VL;
  vf acc[14];
  planes_sums(c, c->x + row * d->pitch + column, d->pitch, acc, P);
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) planes_store(&at, p * d->y_row, p * d->residual_row, acc[p], n);
}

typedef void planes_tile_fn(const ert_depthwise_planar *d, const planes_channel *c, size_t row, size_t column);

#define PLANES_DEFINE(P)                                                                                             \
  static void planes_tile_##P(const ert_depthwise_planar *d, const planes_channel *c, size_t row, size_t column) {   \
    planes_tile(d, c, row, column, P);                                                                               \
  }                                                                                                                  \
  static void planes_column_##P(const ert_depthwise_planar *d, const planes_channel *c, size_t row, size_t column) { \
    planes_column(d, c, row, column, P);                                                                             \
  }
#define PLANES_ENTRY(P)        planes_tile_##P,
#define PLANES_COLUMN_ENTRY(P) planes_column_##P,
PLANES_TILES(PLANES_DEFINE)
static planes_tile_fn *const planes_tiles[] = {NULL, PLANES_TILES(PLANES_ENTRY)};
static planes_tile_fn *const planes_columns[] = {NULL, PLANES_TILES(PLANES_COLUMN_ENTRY)};
enum { PLANES_MOST = sizeof planes_tiles / sizeof planes_tiles[0] - 1 };
#undef PLANES_COLUMN_ENTRY
#undef PLANES_ENTRY
#undef PLANES_DEFINE

/* All rows of a channel, in tiles of whole rows that follow one another in scratch without gaps, of parts of long rows, or of
 * a vector of each of several rows: sums that do not wait for one another. */
ERT_INLINE void planes_channel_run(const ert_depthwise_planar *d, const planes_channel *c) {
  const size_t of_row = (d->pixels + VL - 1) / VL;
  if (d->pitch < VL) { /* two rows a vector */
    for (size_t r = 0; r < d->rows; r += 2 * PLANES_MOST) {
      const size_t left = (d->rows - r + 1) / 2;
      planes_tiles[left < PLANES_MOST ? left : PLANES_MOST](d, c, r, 0);
    }
  } else if (d->pitch == of_row * VL && 2 * of_row <= PLANES_MOST) {
    const size_t rows = PLANES_MOST / of_row;
    for (size_t r = 0; r < d->rows; r += rows)
      planes_tiles[(d->rows - r < rows ? d->rows - r : rows) * of_row](d, c, r, 0);
  } else if (2 * of_row <= PLANES_MOST) {
    for (size_t r = 0; r < d->rows; r += PLANES_MOST)
      for (size_t v = 0; v < of_row; v++)
        planes_columns[d->rows - r < PLANES_MOST ? d->rows - r : PLANES_MOST](d, c, r, v * VL);
  } else {
    for (size_t r = 0; r < d->rows; r++)
      for (size_t v = 0; v < of_row; v += PLANES_MOST)
        planes_tiles[of_row - v < PLANES_MOST ? of_row - v : PLANES_MOST](d, c, r, v * VL);
  }
}

#include "kernels/simd/f32-depthwise-nine.h"

#include "kernels/simd/f32-depthwise-grid.h"

/* Two phases at once, of neighbouring columns of the same rows two columns apart: the even and the odd ones. */
ERT_INLINE void planes_copy_two(const ert_depthwise_planar *d, const ert_phase *even, const ert_phase *odd,
                                const float *x, float *scratch) {
  const size_t n = even->columns + odd->columns, full = n / (2 * VL) * VL, rest = n - 2 * full, pitch = d->pitch;
  const size_t first = rest < VL ? rest : VL;
  const ptrdiff_t x_row = d->x_row;
  const float *from = x + even->from;
  float *to = scratch + even->to, *other = scratch + odd->to;
  for (size_t r = even->rows; r > 0; r--, from += x_row, to += pitch, other += pitch) {
    for (size_t i = 0; i < full; i += VL) {
      const vf a = vload(from + 2 * i), b = vload(from + 2 * i + VL);
      vstore(to + i, pool_every_second(a, b, 0));
      vstore(other + i, pool_every_second(a, b, 1));
    }
    if (rest == 0) continue;
    const vf a = vload_part(from + 2 * full, first);
    const vf b = rest > VL ? vload_part(from + 2 * full + VL, rest - VL) : vzero();
    vstore(to + full, pool_every_second(a, b, 0));
    vstore(other + full, pool_every_second(a, b, 1));
  }
}

/* Most of the taps: all of them, those that are not in the list being zero, are faster than the list, unless its tiles are
 * of whole rows: these do without loads for weights, of which shorter vectors need more, or take two rows a vector. */
ERT_INLINE bool planes_is_grid(const ert_depthwise_planar *d, size_t channel) {
  const bool whole_rows = VL == 16 ? d->pitch < VL : d->pitch == (d->pixels + VL - 1) / VL * VL;
  return d->grid && !whole_rows && d->counts[channel] >= d->grid->least;
}

/* Copies the phases that a channel's taps read. */
ERT_INLINE void planes_gather(const ert_depthwise_planar *d, size_t channel, const uint8_t *taps) {
  const float *x = d->x + (ptrdiff_t)channel * d->x_channel;
  float *scratch = d->scratch + channel % 2 * d->size;
  const size_t count = d->counts[channel];
  if (d->n_phases == 1) {
    if (count > 0) planes_copy(d, d->phases, x, scratch);
    return;
  }
  uint8_t used[ERT_MOST_TAPS + 1];
  const bool all = planes_is_grid(d, channel);
  memset(used, all, sizeof used);
  for (size_t t = 0; t < count && !all; t++) used[d->table[taps[t]].phase] = 1;
  for (size_t p = 0; p < d->n_phases; p++) {
    const ert_phase *phase = d->phases + p;
    if (!used[p] || phase->rows == 0) continue;
    const bool two = d->pairs && p % 2 == 0 && used[p + 1] && phase[1].rows > 0;
    if (two && phase[1].from == phase->from + 1)
      planes_copy_two(d, phase, phase + 1, x, scratch), p++;
    else if (two && phase[1].from == phase->from - 1)
      planes_copy_two(d, phase + 1, phase, x, scratch), p++;
    else
      planes_copy(d, phase, x, scratch);
  }
}

/* Most of nine taps: all of them, those that are not in the list being zero, are faster than the list. */
ERT_INLINE bool planes_is_nine(const ert_depthwise_planar *d, size_t channel) {
  return d->nine && d->counts[channel] >= ERT_NINE_LEAST;
}

ERT_INLINE void planes_complete(const ert_depthwise_planar *d, size_t channel, const float *values, const uint8_t *taps,
                                planes_channel *c, float nine[9]) {
  for (size_t t = 0; t < 9; t++) nine[t] = 0;
  for (size_t t = 0; t < c->taps; t++)
    if (taps[t] < 9) nine[taps[t]] = values[t];
  c->w = nine;
  c->x = d->x + (ptrdiff_t)channel * d->x_channel;
}

ERT_INLINE planes_channel planes_channel_of(const ert_depthwise_planar *d, size_t channel) {
  const size_t past = (VL - d->pixels % VL) % VL;
  return (planes_channel){
      .masked = (size_t)d->y_row == d->pixels && !d->residual ? (past + d->pixels - 1) / d->pixels : d->rows,
      .taps = d->counts[channel],
      .bias = d->bias ? d->bias[channel] : 0.0f,
      .y = d->y + (ptrdiff_t)channel * d->y_channel,
      .residual = d->residual ? d->residual + (ptrdiff_t)channel * d->residual_channel : NULL,
  };
}

/* A channel is copied before the one ahead of it is computed: by the time it is read its stores have reached the cache. */
static void depthwise_planar_run(const ert_depthwise_planar *d) {
  ptrdiff_t at[ERT_MOST_TAPS];
  float nine[2][9];
  const float *values = d->values;
  const uint8_t *taps = d->taps;
  const bool pairs = nine_pairs(d);
  if (!planes_is_nine(d, 0)) planes_gather(d, 0, taps);
  for (size_t i = 0; i < d->channels; i++) {
    planes_channel c[2] = {planes_channel_of(d, i)};
    const float *own = values;
    const uint8_t *own_taps = taps;
    values += c->taps, taps += c->taps;
    const bool complete = planes_is_nine(d, i);
    const bool pair = complete && pairs && i + 1 < d->channels && planes_is_nine(d, i + 1);
    if (complete) planes_complete(d, i, own, own_taps, c, nine[0]);
    if (pair) {
      c[1] = planes_channel_of(d, ++i);
      planes_complete(d, i, values, taps, c + 1, nine[1]);
      values += c[1].taps, taps += c[1].taps;
    }
    if (i + 1 < d->channels && !planes_is_nine(d, i + 1)) planes_gather(d, i + 1, taps);
    if (complete) {
      nine_run(d, c, pair);
      continue;
    }
    c->x = d->scratch + i % 2 * d->size, c->w = own;
    if (planes_is_grid(d, i)) {
      grid_run(d, c, own_taps);
      continue;
    }
    for (size_t t = 0; t < c->taps; t++) at[t] = d->table[own_taps[t]].at;
    c->at = at;
    planes_channel_run(d, c);
  }
}

#endif
