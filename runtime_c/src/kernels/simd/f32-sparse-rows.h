/* The sums of a filter's pixels in SPARSE_VECTORs of SPARSE_VL floats; included by f32-sparse.h for each width, the operations
 * of which OP names. */

/* acc += value * line, at `from`. */
ERT_INLINE void OP(step)(SPARSE_VECTOR *acc, const char *from, SPARSE_VECTOR value, int V) {
  const float *line = (const float *)(const void *)from;
#pragma GCC unroll 24
  for (int v = 0; v < V; v++) acc[v] += OP(load)(line + v * SPARSE_VL) * value;
}

/* The same for n non-zeros of one filter. */
ERT_INLINE void OP(add)(SPARSE_VECTOR *acc, const float *x, size_t line, const float *values, const uint8_t *indices,
                        size_t n, int V, ert_sparse_indices indexed) {
  const bool gaps = indexed == ERT_SPARSE_GAP;
  const size_t bytes = ert_sparse_index_bytes(indexed);
  const char *from = (const char *)x;
  for (; n >= 4; n -= 4, values += 4, indices += 4 * bytes) {
    const SPARSE_VECTOR weights = OP(four)(values);
    const uint64_t four = sparse_four_indices(indices, indexed);
    const char *at = from + sparse_index(four, 0, indexed) * line;
    OP(step)(acc, at, OP(lane)(weights, 0), V);
    at = (gaps ? at : from) + sparse_index(four, 1, indexed) * line;
    OP(step)(acc, at, OP(lane)(weights, 1), V);
    at = (gaps ? at : from) + sparse_index(four, 2, indexed) * line;
    OP(step)(acc, at, OP(lane)(weights, 2), V);
    at = (gaps ? at : from) + sparse_index(four, 3, indexed) * line;
    OP(step)(acc, at, OP(lane)(weights, 3), V);
    if (gaps) from = at;
  }
  for (; n > 0; n--, values++, indices += bytes) {
    const char *at = from + sparse_one_index(indices, indexed) * line;
    OP(step)(acc, at, *values - (SPARSE_VECTOR){0}, V);
    if (gaps) from = at;
  }
}

/* The same for n places of four non-zeros each, whose lines are `deep` bytes apart. */
ERT_INLINE void OP(add_deep)(SPARSE_VECTOR *acc, const float *x, size_t line, size_t deep, const float *values,
                             const uint8_t *indices, size_t n, int V, ert_sparse_indices indexed) {
  const char *lines = (const char *)x;
  for (; n > 0; n--, values += 4, indices += ert_sparse_index_bytes(indexed)) {
    const SPARSE_VECTOR weights = OP(four)(values);
    const char *from = lines + sparse_one_index(indices, indexed) * line;
    if (indexed == ERT_SPARSE_GAP) lines = from;
    OP(step)(acc, from, OP(lane)(weights, 0), V);
    OP(step)(acc, from = sparse_on(from, deep), OP(lane)(weights, 1), V);
    OP(step)(acc, from = sparse_on(from, deep), OP(lane)(weights, 2), V);
    OP(step)(acc, sparse_on(from, deep), OP(lane)(weights, 3), V);
  }
}

/* acc += value * line, for n places at which four filters have weights: each line is loaded once. */
ERT_INLINE void OP(add_four)(SPARSE_VECTOR (*acc)[SPARSE_MOST / SPARSE_VL], const float *x, size_t line,
                             const float *values, const uint8_t *indices, size_t n, int V, ert_sparse_indices indexed) {
  const char *lines = (const char *)x;
  for (; n > 0; n--, values += 4, indices += ert_sparse_index_bytes(indexed)) {
    const char *at = lines + sparse_one_index(indices, indexed) * line;
    const float *from = (const float *)(const void *)at;
    if (indexed == ERT_SPARSE_GAP) lines = at;
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) {
      const SPARSE_VECTOR pixels = OP(load)(from + v * SPARSE_VL);
#pragma GCC unroll 4
      for (int f = 0; f < 4; f++) acc[f][v] += pixels * (values[f] - (SPARSE_VECTOR){0});
    }
  }
}

/* acc += what there was before this tile: the bias, or the sums of the tiles before. */
ERT_INLINE void OP(start)(const ert_sparse *s, size_t filter, const float *sums, SPARSE_VECTOR *acc, int V) {
  if (s->first) {
    const SPARSE_VECTOR bias = (s->bias ? s->bias[filter] : 0.0f) - (SPARSE_VECTOR){0};
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) acc[v] += bias;
  } else {
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) acc[v] += OP(load)(sums + v * SPARSE_VL);
  }
}

/* y = sum + residual, clipped, for n pixels. */
ERT_INLINE void OP(put)(float *y, const float *residual, SPARSE_VECTOR sum, size_t n, SPARSE_VECTOR lo,
                        SPARSE_VECTOR hi) {
  if (residual) sum += n == SPARSE_VL ? OP(load)(residual) : OP(load_part)(residual, n);
  sum = OP(min)(hi, OP(max)(lo, sum));
  if (n == SPARSE_VL)
    OP(store)(y, sum);
  else
    OP(store_part)(y, sum, n);
}

/* The outputs of one filter in several rows, from sums `line` apart. */
static __attribute__((noinline)) void OP(put_rows)(const ert_sparse *s, size_t filter, const float *sums) {
  const SPARSE_VECTOR lo = s->lo - (SPARSE_VECTOR){0}, hi = s->hi - (SPARSE_VECTOR){0};
  float *y = s->y + (ptrdiff_t)filter * s->y_filter;
  const float *residual = s->residual ? s->residual + (ptrdiff_t)filter * s->residual_filter : NULL;
  for (size_t row = 0; row < s->rows; row++, sums += s->line, y += s->y_row) {
    for (size_t i = 0; i < s->pixels; i += SPARSE_VL) {
      const size_t left = s->pixels - i;
      OP(put)(y + i, residual ? residual + i : NULL, OP(load)(sums + i), left < SPARSE_VL ? left : SPARSE_VL, lo, hi);
    }
    if (residual) residual += s->residual_row;
  }
}

/* The outputs of one filter. */
ERT_INLINE void OP(finish)(const ert_sparse *s, size_t filter, const SPARSE_VECTOR *acc, int V) {
  if (s->rows > 1 || s->pixels <= (size_t)(V - 1) * SPARSE_VL) {
    float sums[SPARSE_MOST];
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) OP(store)(sums + v * SPARSE_VL, acc[v]);
    OP(put_rows)(s, filter, sums);
    return;
  }
  const SPARSE_VECTOR lo = s->lo - (SPARSE_VECTOR){0}, hi = s->hi - (SPARSE_VECTOR){0};
  float *y = s->y + (ptrdiff_t)filter * s->y_filter;
  const size_t rest = s->pixels - (size_t)(V - 1) * SPARSE_VL;
  if (s->residual) {
    const float *residual = s->residual + (ptrdiff_t)filter * s->residual_filter;
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) {
      OP(put)(y + v * SPARSE_VL, residual + v * SPARSE_VL, acc[v], v + 1 < V ? SPARSE_VL : rest, lo, hi);
    }
    return;
  }
#pragma GCC unroll 24
  for (int v = 0; v < V; v++) OP(put)(y + v * SPARSE_VL, NULL, acc[v], v + 1 < V ? SPARSE_VL : rest, lo, hi);
}

/* F filters together, 1 or 4, have one group of places, of D channels each, 1 or 4, or several with shifts between them, or
 * several that begin at columns of their own. All tiles but the last leave their sums in s->sums. */
ERT_INLINE void OP(rows)(const ert_sparse *s, int F, int D, int V, bool single, bool shift, ert_sparse_indices indexed,
                         bool ends) {
  const float *const x = s->x;
  const float *values = s->values;
  const uint8_t *indices = s->indices, *counts = s->counts;
  const size_t line = s->line * sizeof(float), last = s->groups - 1;
  float *sums = s->sums;
  for (size_t i = 0; i < s->filters; i += (size_t)F, counts += s->counts_row) {
    size_t filter = i;
    if (s->sorted) {
      filter = ert_sparse_filter(i, counts, (size_t)F);
      sums = s->sums + filter * s->sums_filter;
    }
    SPARSE_VECTOR acc[4][SPARSE_MOST / SPARSE_VL];
#pragma GCC unroll 4
    for (int f = 0; f < F; f++)
#pragma GCC unroll 24
      for (int v = 0; v < V; v++) acc[f][v] = (SPARSE_VECTOR){0};
    for (size_t g = 0;; g++) {
      const size_t n = counts[g];
      const float *from = single || shift ? x : x + s->columns[g];
      if (F == 4)
        OP(add_four)(acc, from, line, values, indices, n, V, indexed);
      else if (D == 4)
        OP(add_deep)(acc[0], from, line, s->deep * sizeof(float), values, indices, n, V, indexed);
      else
        OP(add)(acc[0], from, line, values, indices, n, V, indexed);
      values += n * (size_t)(F * D), indices += n * ert_sparse_index_bytes(indexed);
      if (single || g == last) break;
      if (!shift) continue;
#pragma GCC unroll 4
      for (int f = 0; f < F; f++)
#pragma GCC unroll 24
        for (int v = 0; v < V; v++) acc[f][v] = OP(move)(acc[f][v], v + 1 < V ? acc[f][v + 1] : (SPARSE_VECTOR){0});
    }
#pragma GCC unroll 4
    for (int f = 0; f < F; f++, sums += s->sums_filter) {
      OP(start)(s, filter + (size_t)f, sums, acc[f], V);
      if (ends) {
        OP(finish)(s, filter + (size_t)f, acc[f], V);
      } else {
#pragma GCC unroll 24
        for (int v = 0; v < V; v++) OP(store)(sums + v * SPARSE_VL, acc[f][v]);
      }
    }
  }
}

/* KIND(V, name, single, shift, indexed): all kinds of filters. */
#define SPARSE_KINDS(V, KIND)                   \
  KIND(V, single, true, false, ERT_SPARSE_LINE) \
  KIND(V, shift, false, true, ERT_SPARSE_LINE)  \
  KIND(V, gap_shift, false, true, ERT_SPARSE_GAP) KIND(V, any, false, s->shift, s->indexed)
#define SPARSE_KIND(V, name, single, shift, indexed)                                                       \
  static void OP(name##_##V)(const ert_sparse *s) { OP(rows)(s, 1, 1, V, single, shift, indexed, false); } \
  static void OP(name##_last_##V)(const ert_sparse *s) { OP(rows)(s, 1, 1, V, single, shift, indexed, true); }
#define SPARSE_DEFINE(V) SPARSE_KINDS(V, SPARSE_KIND)
SPARSE_COUNTS(SPARSE_DEFINE)
#undef SPARSE_KIND
#define SPARSE_KIND(V, name, single, shift, indexed)                                                              \
  static void OP(four_##name##_##V)(const ert_sparse *s) { OP(rows)(s, 4, 1, V, single, shift, indexed, false); } \
  static void OP(four_##name##_last_##V)(const ert_sparse *s) { OP(rows)(s, 4, 1, V, single, shift, indexed, true); }
SPARSE_FOURS(SPARSE_DEFINE)
#undef SPARSE_DEFINE
#define SPARSE_DEFINE(V)                                                                                               \
  static void OP(deep_##V)(const ert_sparse *s) { OP(rows)(s, 1, 4, V, true, false, ERT_SPARSE_LINE, false); }         \
  static void OP(deep_last_##V)(const ert_sparse *s) { OP(rows)(s, 1, 4, V, true, false, ERT_SPARSE_LINE, true); }     \
  static void OP(deep_shift_##V)(const ert_sparse *s) { OP(rows)(s, 1, 4, V, false, true, ERT_SPARSE_LINE, s->last); } \
  static void OP(deep_any_##V)(const ert_sparse *s) { OP(rows)(s, 1, 4, V, false, s->shift, s->indexed, s->last); }
SPARSE_COUNTS(SPARSE_DEFINE)
#undef SPARSE_DEFINE
#undef SPARSE_KIND

/* By number of accumulators, kind and whether the tile is the last one. */
#define SPARSE_KIND(V, name, single, shift, indexed) {OP(name##_##V), OP(name##_last_##V)},
#define SPARSE_ENTRY(V)                              [V] = {SPARSE_KINDS(V, SPARSE_KIND)},
static void (*const OP(functions)[][4][2])(const ert_sparse *s) = {SPARSE_COUNTS(SPARSE_ENTRY)};
#undef SPARSE_KIND
#define SPARSE_KIND(V, name, single, shift, indexed) {OP(four_##name##_##V), OP(four_##name##_last_##V)},
static void (*const OP(four_functions)[][4][2])(const ert_sparse *s) = {SPARSE_FOURS(SPARSE_ENTRY)};
#undef SPARSE_ENTRY
#undef SPARSE_KIND
#undef SPARSE_KINDS
#define SPARSE_ENTRY(V) [V] = {OP(deep_##V), OP(deep_last_##V), OP(deep_shift_##V), OP(deep_any_##V)},
static void (*const OP(deep_functions)[][4])(const ert_sparse *s) = {SPARSE_COUNTS(SPARSE_ENTRY)};
#undef SPARSE_ENTRY

static void OP(choose)(const ert_sparse *s) {
  const bool lines = s->indexed == ERT_SPARSE_LINE, single = s->groups == 1 && s->columns[0] == 0 && lines;
  const int kind = single ? 0 : !s->shift || s->indexed == ERT_SPARSE_WIDE_LINE ? 3 : lines ? 1 : 2;
  const size_t vectors = (s->floats + SPARSE_VL - 1) / SPARSE_VL;
  if (s->deep != 0) {
    OP(deep_functions)[vectors][single ? (s->last ? 1 : 0) : s->shift && lines ? 2 : 3](s);
    return;
  }
  (s->together == 1 ? OP(functions) : OP(four_functions))[vectors][kind][s->last](s);
}
