/* Pooling windows: pixels of 16 channels, and planar rows.
 *
 * Both fold a window column by column, so that they give the same bits: a column's positions in their order, then the
 * columns in theirs. Of equal values the first one is the largest. Sums begin with zero, which takes the sign of a
 * window of negative zeros. */
#include "kernels/simd/simd.h"

ERT_INLINE vf pool_step(bool average, vf acc, vf x) { return average ? acc + x : vmax_nan(acc, x); }

/* Columns of D by H positions, where those are constants. */
ERT_INLINE void pool_blocks_of(bool average, const ert_taps *t, size_t D, size_t H, const float *x, ptrdiff_t step,
                               float factor, float *y, size_t n) {
  const ptrdiff_t stride_d = t->stride[0], stride_h = t->stride[1], stride_w = t->stride[2];
  for (size_t o = 0; o < n; o++, x += step, y += 16) {
    vf acc[V16];
    for (size_t j = 0; j < V16; j++) acc[j] = vsplat(average ? 0.0f : -INFINITY);
    const float *at = x;
    for (size_t w = 0; w < t->count[2]; w++, at += stride_w)
      for (size_t j = 0; j < V16; j++) {
        vf column = vload(at + j * VL);
        for (size_t d = 0; d < D; d++)
          for (size_t h = d == 0; h < H; h++)
            column = pool_step(average, column, vload(at + (ptrdiff_t)d * stride_d + (ptrdiff_t)h * stride_h + j * VL));
        acc[j] = pool_step(average, acc[j], column);
      }
    for (size_t j = 0; j < V16; j++) vstore(y + j * VL, average ? acc[j] * factor : acc[j]);
  }
}

ERT_INLINE void pool_blocks_kind(bool average, const ert_taps *t, const float *x, ptrdiff_t step, float factor,
                                 float *y, size_t n) {
  if (t->count[0] == 1 && t->count[1] == 2)
    pool_blocks_of(average, t, 1, 2, x, step, factor, y, n);
  else if (t->count[0] == 1 && t->count[1] == 3)
    pool_blocks_of(average, t, 1, 3, x, step, factor, y, n);
  else
    pool_blocks_of(average, t, t->count[0], t->count[1], x, step, factor, y, n);
}

static void f32_pool_blocks(bool average, const ert_taps *t, const float *x, ptrdiff_t step, float factor, float *y,
                            size_t n) {
  if (average)
    pool_blocks_kind(true, t, x, step, factor, y, n);
  else
    pool_blocks_kind(false, t, x, step, factor, y, n);
}

/* a[first], a[first + 2], ..., b[first], b[first + 2], ...; first is 0 or 1. */
ERT_INLINE vf pool_every_second(vf a, vf b, int first) {
#if defined(__clang__)
#if ERT_VECTOR_BYTES == 64
  return first ? __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
               : __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif ERT_VECTOR_BYTES == 32
  return first ? __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
               : __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return first ? __builtin_shufflevector(a, b, 1, 3, 5, 7) : __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
#else
  vi lanes;
  for (int j = 0; j < VL; j++) lanes[j] = 2 * j + first;
  return __builtin_shuffle(a, b, lanes);
#endif
}

/* A vector of columns of D by H positions. `part`: only the first n of them exist. */
ERT_INLINE vf pool_column(const ert_pool_planar *p, bool average, const float *x, size_t D, size_t H, bool part,
                          size_t n) {
  vf column = part ? vload_part(x, n) : vload(x);
  for (size_t d = 0; d < D; d++)
    for (size_t h = d == 0; h < H; h++) {
      const float *at = x + (ptrdiff_t)d * p->x_stride[0] + (ptrdiff_t)h * p->x_stride[1];
      column = pool_step(average, column, part ? vload_part(at, n) : vload(at));
    }
  return column;
}

/* ---- windows that slide along vectors of columns in registers ---- */

/* b one lane later, after the last lane of a; and a one lane earlier, before the first lane of b. */
#if ERT_VECTOR_BYTES == 64
ERT_INLINE vf pool_later(vf a, vf b) { return (vf)_mm512_alignr_epi32((__m512i)b, (__m512i)a, 15); }
ERT_INLINE vf pool_earlier(vf a, vf b) { return (vf)_mm512_alignr_epi32((__m512i)b, (__m512i)a, 1); }
#elif defined(__clang__)
#if ERT_VECTOR_BYTES == 32
ERT_INLINE vf pool_later(vf a, vf b) { return __builtin_shufflevector(a, b, 7, 8, 9, 10, 11, 12, 13, 14); }
ERT_INLINE vf pool_earlier(vf a, vf b) { return __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8); }
#else
ERT_INLINE vf pool_later(vf a, vf b) { return __builtin_shufflevector(a, b, 3, 4, 5, 6); }
ERT_INLINE vf pool_earlier(vf a, vf b) { return __builtin_shufflevector(a, b, 1, 2, 3, 4); }
#endif
#else
ERT_INLINE vf pool_neighbours(vf a, vf b, int first) {
  vi lanes;
  for (int j = 0; j < VL; j++) lanes[j] = j + first;
  return __builtin_shuffle(a, b, lanes);
}
ERT_INLINE vf pool_later(vf a, vf b) { return pool_neighbours(a, b, VL - 1); }
ERT_INLINE vf pool_earlier(vf a, vf b) { return pool_neighbours(a, b, 1); }
#endif

/* How rows of windows are read: the lanes of the vector that is not full of columns, and whether to read nothing past
 * them. */
typedef struct pool_edge {
  vi last;
  bool part;
} pool_edge;

/* Columns [at, at + VL) of a row of windows. */
ERT_INLINE vf pool_columns(const ert_pool_planar *p, bool average, const float *x, size_t D, size_t H, pool_edge edge,
                           size_t at) {
  const vf nothing = vsplat(average ? 0.0f : -INFINITY);
  if (at + VL <= p->columns) return pool_column(p, average, x + at, D, H, false, VL);
  if (at >= p->columns) return nothing;
  return vselect(edge.last, pool_column(p, average, x + at, D, H, edge.part, p->columns - at), nothing);
}

/* The same from `step` * `output` on, every `step`-th of them, for each phase of the step. */
ERT_INLINE void pool_phases(const ert_pool_planar *p, bool average, const float *x, size_t D, size_t H, pool_edge edge,
                            size_t step, size_t output, vf *phases) {
  const vf a = pool_columns(p, average, x, D, H, edge, step * output);
  phases[0] = a;
  if (step == 1) return;
  const vf b = pool_columns(p, average, x, D, H, edge, step * output + VL);
  phases[0] = pool_every_second(a, b, 0);
  phases[1] = pool_every_second(a, b, 1);
}

/* A row of outputs whose first window begins `before` columns ahead of the first one. */
ERT_INLINE void pool_row(const ert_pool_planar *p, bool average, const float *x, size_t D, size_t H, pool_edge edge,
                         size_t taps, size_t before, size_t step, float *y) {
  const bool ahead = taps - before > step;
  const vf nothing = vsplat(average ? 0.0f : -INFINITY);
  vf last[2] = {nothing, nothing}, here[2], next[2];
  if (ahead) pool_phases(p, average, x, D, H, edge, step, 0, next);
  for (size_t o = 0; o < p->n; o += VL) {
    if (ahead) here[0] = next[0], here[1] = next[1];
    pool_phases(p, average, x, D, H, edge, step, ahead ? o + VL : o, ahead ? next : here);
    vf acc = nothing;
#pragma GCC unroll 3
    for (size_t k = 0; k < taps; k++) {
      const vf columns = k < before          ? pool_later(last[step - 1], here[step - 1])
                         : k - before < step ? here[k - before]
                                             : pool_earlier(here[k - before - step], next[k - before - step]);
      acc = k == 0 && !average ? columns : pool_step(average, acc, columns);
    }
    last[0] = here[0], last[1] = here[1];
    if (average) acc *= vload(p->factors + o);
    if (o + VL <= p->n)
      vstore(y + o, acc);
    else
      vstore_part(y + o, acc, p->n - o);
  }
}

/* Rows of outputs with windows of as many rows, but at the edges, as columns. */
ERT_INLINE void pool_rows(const ert_pool_planar *pool, bool average, size_t taps, size_t before, size_t step) {
  const ert_pool_planar p = *pool; /* that stores do not change */
  const vi last = (vi)vfirst((vf)(vzero() == vzero()), p.columns % VL, vzero());
  float divisor = 0;
  for (size_t c = 0; c < p.channels; c++) {
    /* what lies behind a channel can be read if that is another one */
    const pool_edge edge = {last, c + 1 == p.channels || p.x_channel < VL};
    for (size_t r = 0; r < p.n_rows; r++) {
      const ert_pool_row row = p.rows[r];
      const float *x = p.x + (ptrdiff_t)c * p.x_channel + row.x;
      float *y = p.y + (ptrdiff_t)c * p.y_channel + row.y;
      if (average && row.divisor != divisor) {
        divisor = row.divisor;
        for (size_t o = 0; o < p.n; o += VL) vstore(p.factors + o, 1.0f / (divisor * vload(p.divisors + o)));
      }
      if (row.count[0] == 1 && row.count[1] == taps && !edge.part)
        pool_row(&p, average, x, 1, taps, (pool_edge){last, false}, taps, before, step, y);
      else
        pool_row(&p, average, x, row.count[0], row.count[1], edge, taps, before, step, y);
    }
  }
}

#define POOL_ROWS(X) X(3, 1, 2) X(3, 0, 2) X(2, 0, 2) X(3, 1, 1)
#define POOL_DEFINE(t, b, s)                                                                     \
  static void pool_averages_##t##b##s(const ert_pool_planar *p) { pool_rows(p, true, t, b, s); } \
  static void pool_maxima_##t##b##s(const ert_pool_planar *p) { pool_rows(p, false, t, b, s); }
POOL_ROWS(POOL_DEFINE)

/* False if windows are of another kind, or rows are so short that there is little to slide along. */
static bool pool_slides(const ert_pool_planar *p) {
  if (p->n <= VL || p->tap != 1) return false;
  for (size_t r = 0; r < p->n_rows; r++)
    if (p->rows[r].count[0] == 0 || p->rows[r].count[1] == 0) return false;
#define POOL_CASE(t, b, s)                                             \
  if (p->taps == t && p->before == b && p->step == s) {                \
    (p->average ? pool_averages_##t##b##s : pool_maxima_##t##b##s)(p); \
    return true;                                                       \
  }
  POOL_ROWS(POOL_CASE)
  return false;
}
#undef POOL_CASE
#undef POOL_DEFINE
#undef POOL_ROWS

/* ---- narrow rows of outputs, one or two to a vector, whose windows are picked from vectors of columns ---- */

#if defined(__x86_64__) && ERT_VECTOR_BYTES >= 32

enum { POOL_PICKED_TAPS = 16 };

/* Lane j is number index[j] of the lanes of a and, after them, those of b. */
#if ERT_VECTOR_BYTES == 64
ERT_INLINE vf pool_pick(vf a, vf b, vi index) {
  return (vf)_mm512_permutex2var_ps((__m512)a, (__m512i)index, (__m512)b);
}
#else
ERT_INLINE vf pool_pick(vf a, vf b, vi index) {
  const __m256 from_a = _mm256_permutevar8x32_ps((__m256)a, (__m256i)index);
  const __m256 from_b = _mm256_permutevar8x32_ps((__m256)b, (__m256i)index);
  return (vf)_mm256_blendv_ps(from_a, from_b, (__m256)(index << 28));
}
#endif

/* Columns of one row of windows: n of them, then nothing. */
ERT_INLINE vf pool_narrow_columns(const ert_pool_planar *p, bool average, const float *x, const ert_pool_row *row,
                                  size_t n) {
  const vf nothing = vsplat(average ? 0.0f : -INFINITY);
  const size_t depths = row->count[0], heights = row->count[1];
  vf columns;
  x += row->x;
  if (depths == 1 && heights == 3)
    columns = pool_column(p, average, x, 1, 3, true, n);
  else if (depths == 1 && heights == 2)
    columns = pool_column(p, average, x, 1, 2, true, n);
  else if (depths > 0 && heights > 0)
    columns = pool_column(p, average, x, depths, heights, true, n);
  else
    return nothing;
  return average ? columns : vfirst(columns, n, nothing);
}

/* `beside` rows to a vector; `wide`: rows have more columns than a vector. The factors of averages lie in p->lines. */
ERT_INLINE void pool_narrow_rows(const ert_pool_planar *pool, bool average, size_t beside, bool wide, size_t taps,
                                 const vi *pick) {
  const ert_pool_planar p = *pool; /* that stores do not change */
  const vf nothing = vsplat(average ? 0.0f : -INFINITY);
  const size_t made = p.n_rows * p.n, follow = (size_t)p.y_channel == made && p.joined ? p.channels : 0;
  for (size_t c = 0; c < p.channels; c++) {
    const float *x = p.x + (ptrdiff_t)c * p.x_channel, *factors = p.lines;
    const size_t room = follow     ? (follow - c) * made
                        : p.joined ? made
                                   : 0; /* floats from here on that are still written */
    for (size_t r = 0; r < p.n_rows; r += beside, factors += VL) {
      const size_t n = r + beside <= p.n_rows ? beside * p.n : p.n;
      float *y = p.y + (ptrdiff_t)c * p.y_channel + p.rows[r].y;
      const vf a = pool_narrow_columns(&p, average, x, p.rows + r, wide ? VL : p.columns);
      vf b = nothing, acc = nothing;
      if (wide) b = pool_narrow_columns(&p, average, x + VL, p.rows + r, p.columns - VL);
      if (beside == 2 && n > p.n) b = pool_narrow_columns(&p, average, x, p.rows + r + 1, p.columns);
#pragma GCC unroll 3
      for (size_t k = 0; k < taps; k++) acc = pool_step(average, acc, pool_pick(a, b, pick[k]));
      if (average) acc *= vload(factors);
      if (r * p.n + VL <= room)
        vstore(y, acc);
      else
        vstore_part(y, acc, n);
    }
  }
}

ERT_INLINE void pool_narrow_taps(const ert_pool_planar *p, bool average, size_t beside, bool wide, const vi *pick) {
  if (p->taps == 2)
    pool_narrow_rows(p, average, beside, wide, 2, pick);
  else if (p->taps == 3)
    pool_narrow_rows(p, average, beside, wide, 3, pick);
  else
    pool_narrow_rows(p, average, beside, wide, p->taps, pick);
}

ERT_INLINE void pool_narrow_kind(const ert_pool_planar *p, bool average, size_t beside, const vi *pick) {
  if (beside == 2)
    pool_narrow_taps(p, average, 2, false, pick);
  else if (p->columns > VL)
    pool_narrow_taps(p, average, 1, true, pick);
  else
    pool_narrow_taps(p, average, 1, false, pick);
}

/* False if rows have too many columns or outputs for that. */
static bool pool_narrow(const ert_pool_planar *p) {
  const size_t beside = 2 * p->n <= VL && p->columns < VL && p->joined && p->n_rows > 1 ? 2 : 1;
  if (p->n > VL || p->columns >= 2 * VL || p->columns == 0 || p->taps > POOL_PICKED_TAPS) return false;
  vi pick[POOL_PICKED_TAPS];
  for (size_t k = 0; k < p->taps; k++)
    for (size_t j = 0; j < VL; j++) {
      const size_t row = j / p->n,
                   at = j % p->n * p->step + k * (size_t)p->tap - p->before; /* wraps before the input */
      const bool inside = row < beside && at < p->columns;
      pick[k][j] = (int32_t)(inside ? row * VL + at : beside == 2 ? p->columns : 2 * VL - 1);
    }
  if (p->average) {
    for (size_t r = 0; r < p->n_rows; r += beside)
      for (size_t j = 0; j < VL; j++) {
        const size_t row = r + j / p->n < p->n_rows ? r + j / p->n : r;
        p->lines[r / beside * VL + j] = 1.0f / (p->rows[row].divisor * p->divisors[j % p->n]);
      }
    pool_narrow_kind(p, true, beside, pick);
  } else {
    pool_narrow_kind(p, false, beside, pick);
  }
  return true;
}

#else
static bool pool_narrow(const ert_pool_planar *p) {
  (void)p;
  return false;
}
#endif

/* ---- windows that slide along lines in scratch ---- */

/* Every column of a row of windows. The last vector may have columns of the one before it again. */
ERT_INLINE void pool_fold_row(const ert_pool_planar *p, bool average, const float *x, size_t D, size_t H, float *line) {
  const size_t n = p->columns;
  if (n < VL) {
    vstore(line, vfirst(pool_column(p, average, x, D, H, true, n), n, vsplat(average ? 0.0f : -INFINITY)));
    return;
  }
  for (size_t i = 0; i + VL < n; i += VL) vstore(line + i, pool_column(p, average, x + i, D, H, false, VL));
  vstore(line + n - VL, pool_column(p, average, x + n - VL, D, H, false, VL));
}

ERT_INLINE void pool_fold_rows(const ert_pool_planar *p, bool average, const float *x, float *lines) {
  lines += p->before;
  for (size_t r = 0; r < p->n_rows && p->columns > 0; r++, lines += p->pitch) {
    const size_t depths = p->rows[r].count[0], heights = p->rows[r].count[1];
    const float *from = x + p->rows[r].x;
    if (depths == 1 && heights == 2)
      pool_fold_row(p, average, from, 1, 2, lines);
    else if (depths == 1 && heights == 3)
      pool_fold_row(p, average, from, 1, 3, lines);
    else if (depths > 0 && heights > 0)
      pool_fold_row(p, average, from, depths, heights, lines);
    else
      for (size_t i = 0; i < p->columns; i++) lines[i] = average ? 0.0f : -INFINITY;
  }
}

/* Windows of `taps` columns, `tap` apart, the first of which are `step` apart. */
ERT_INLINE vf pool_window(bool average, const float *x, size_t taps, ptrdiff_t tap, size_t step, size_t n) {
  vf acc = vsplat(average ? 0.0f : -INFINITY);
  for (size_t k = 0; k < taps; k++, x += tap) {
    if (step == 1) {
      acc = pool_step(average, acc, vload(x));
    } else if (step == 2) {
      const vf a = vload(x), b = vload(x + VL);
      acc = pool_step(average, acc, pool_every_second(a, b, 0));
      if (tap == 1 && k + 1 < taps) acc = pool_step(average, acc, pool_every_second(a, b, 1)), k++, x++;
    } else {
      vf v;
      for (size_t j = 0; j < VL; j++) v[j] = x[(j < n ? j : 0) * step];
      acc = pool_step(average, acc, v);
    }
  }
  return acc;
}

/* `room`: floats from the channel's first output on that are written by it and what comes after it. */
ERT_INLINE void pool_slide_rows(const ert_pool_planar *p, bool average, size_t taps, ptrdiff_t tap, size_t step,
                                const float *lines, float *y, size_t room) {
  float divisor = 0;
  for (size_t r = 0; r < p->n_rows; r++, lines += p->pitch) {
    if (average && p->rows[r].divisor != divisor) {
      divisor = p->rows[r].divisor;
      for (size_t o = 0; o < p->n; o += VL) vstore(p->factors + o, 1.0f / (divisor * vload(p->divisors + o)));
    }
    float *to = y + p->rows[r].y;
    const size_t left = p->joined ? room - r * p->n : p->n;
    for (size_t o = 0; o < p->n; o += VL) {
      vf acc = pool_window(average, lines + o * step, taps, tap, step, p->n - o);
      if (average) acc = acc * vload(p->factors + o);
      if (o + VL <= left)
        vstore(to + o, acc);
      else
        vstore_part(to + o, acc, p->n - o);
    }
  }
}

ERT_INLINE void pool_slide(const ert_pool_planar *p, bool average, const float *lines, float *y, size_t room) {
  const size_t step = p->step;
  if (step == 1 && p->tap == 1 && p->taps == 3)
    pool_slide_rows(p, average, 3, 1, 1, lines, y, room);
  else if (step == 2 && p->tap == 1 && p->taps == 3)
    pool_slide_rows(p, average, 3, 1, 2, lines, y, room);
  else if (step == 2 && p->tap == 1 && p->taps == 2)
    pool_slide_rows(p, average, 2, 1, 2, lines, y, room);
  else if (step == 1)
    pool_slide_rows(p, average, p->taps, p->tap, 1, lines, y, room);
  else if (step == 2)
    pool_slide_rows(p, average, p->taps, p->tap, 2, lines, y, room);
  else
    pool_slide_rows(p, average, p->taps, p->tap, step, lines, y, room);
}

/* A channel is folded before the one ahead of it is slid along: by the time its lines are read their stores have
 * reached the cache. */
ERT_INLINE void pool_planar_of(const ert_pool_planar *p, bool average) {
  const size_t half = p->n_rows * p->pitch, reach = (p->n - 1) * p->step + (p->taps - 1) * (size_t)p->tap + 1;
  const size_t made = p->n_rows * p->n;
  const float outside = average ? 0.0f : -INFINITY;
  float *line = p->lines;
  for (size_t r = 0; r < 2 * p->n_rows; r++, line += p->pitch) {
    for (size_t i = 0; i < p->before; i++) line[i] = outside;
    for (size_t i = p->before + p->columns; i < reach; i++) line[i] = outside;
  }
  pool_fold_rows(p, average, p->x, p->lines);
  for (size_t c = 0; c < p->channels; c++) {
    const size_t follow = (size_t)p->y_channel == made ? p->channels - c : 1;
    if (c + 1 < p->channels)
      pool_fold_rows(p, average, p->x + (ptrdiff_t)(c + 1) * p->x_channel, p->lines + (c + 1) % 2 * half);
    pool_slide(p, average, p->lines + c % 2 * half, p->y + (ptrdiff_t)c * p->y_channel, follow * made);
  }
}

static __attribute__((noinline)) void pool_lines(const ert_pool_planar *p) {
  if (p->average)
    pool_planar_of(p, true);
  else
    pool_planar_of(p, false);
}

static void f32_pool_planar(const ert_pool_planar *p) {
  if (!pool_narrow(p) && !pool_slides(p)) pool_lines(p);
}
