/* Rows of some vectors and up to four floats more, which lie apart: so lines stay whole, as many as there are, where half a
 * vector more would let every second one begin in the middle; and a fourth of a vector costs no more than a half one. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_TAIL_H
#define ERT_KERNELS_SIMD_F32_SPARSE_TAIL_H

typedef float vq __attribute__((vector_size(16)));
typedef float vq_at __attribute__((vector_size(16), aligned(4), may_alias));

ERT_INLINE vq quarter_load(const float *p) { return *(const vq_at *)p; }
ERT_INLINE void quarter_store(float *p, vq v) { *(vq_at *)p = v; }
ERT_INLINE vq quarter_load_part(const float *p, size_t n) {
  return (vq)_mm_maskz_loadu_ps((__mmask8)((1u << n) - 1), p);
}
ERT_INLINE void quarter_store_part(float *p, vq v, size_t n) {
  _mm_mask_storeu_ps(p, (__mmask8)((1u << n) - 1), (__m128)v);
}

/* The sums of a filter. */
typedef struct tail_sums {
  vf acc[SPARSE_TAIL_MOST / VL];
  vq rest;
} tail_sums;

/* sums += value * line, of line number `index`. */
ERT_INLINE void tail_step(tail_sums *sums, const float *lines, const float *tails, size_t index, vf value, int V) {
  const float *line = lines + index * (size_t)V * VL;
#pragma GCC unroll 6
  for (int v = 0; v < V; v++) sums->acc[v] += vload(line + v * VL) * value;
  sums->rest += quarter_load(tails + index * ERT_SPARSE_TAIL) * (vq)_mm512_castps512_ps128((__m512)value);
}

/* The same for the n non-zeros of one filter. */
ERT_INLINE void tail_add(tail_sums *sums, const float *lines, const float *tails, const float *values,
                         const uint8_t *indices, size_t n, int V, ert_sparse_indices indexed) {
  const bool gaps = indexed == ERT_SPARSE_GAP;
  const size_t bytes = ert_sparse_index_bytes(indexed);
  size_t index = 0;
  for (; n >= 4; n -= 4, values += 4, indices += 4 * bytes) {
    const vf weights = sparse_four(values);
    const uint64_t four = sparse_four_indices(indices, indexed);
    index = (gaps ? index : 0) + sparse_index(four, 0, indexed);
    tail_step(sums, lines, tails, index, sparse_lane(weights, 0), V);
    index = (gaps ? index : 0) + sparse_index(four, 1, indexed);
    tail_step(sums, lines, tails, index, sparse_lane(weights, 1), V);
    index = (gaps ? index : 0) + sparse_index(four, 2, indexed);
    tail_step(sums, lines, tails, index, sparse_lane(weights, 2), V);
    index = (gaps ? index : 0) + sparse_index(four, 3, indexed);
    tail_step(sums, lines, tails, index, sparse_lane(weights, 3), V);
  }
  for (; n > 0; n--, values++, indices += bytes) {
    index = (gaps ? index : 0) + sparse_one_index(indices, indexed);
    tail_step(sums, lines, tails, index, vsplat(*values), V);
  }
}

/* The outputs of one filter. */
ERT_INLINE void tail_finish(const ert_sparse *s, size_t filter, const tail_sums *sums, int V) {
  float *y = s->y + (ptrdiff_t)filter * s->y_filter;
  const float *residual = s->residual ? s->residual + (ptrdiff_t)filter * s->residual_filter : NULL;
  const size_t whole = (size_t)V * VL, n = s->pixels - whole;
#pragma GCC unroll 6
  for (int v = 0; v < V; v++)
    sparse_put(y + v * VL, residual ? residual + v * VL : NULL, sums->acc[v], VL, vsplat(s->lo), vsplat(s->hi));
  vq rest = sums->rest;
  if (residual) rest += quarter_load_part(residual + whole, n);
  rest = (vq)_mm_max_ps(_mm_set1_ps(s->lo), (__m128)rest);
  quarter_store_part(y + whole, (vq)_mm_min_ps(_mm_set1_ps(s->hi), (__m128)rest), n);
}

/* All tiles but the last leave their sums in s->sums; those between the first and the last one take from there, too. */
ERT_INLINE void tail_rows(const ert_sparse *s, int V, ert_sparse_indices indexed, bool between) {
  const float *const lines = s->x, *const tails = s->x_tail, *values = s->values;
  const uint8_t *indices = s->indices, *counts = s->counts;
  for (size_t i = 0; i < s->filters; i++, counts += s->counts_row) {
    const size_t filter = s->sorted ? ert_sparse_filter(i, counts, 1) : i, n = *counts;
    tail_sums sums;
#pragma GCC unroll 6
    for (int v = 0; v < V; v++) sums.acc[v] = vzero();
    sums.rest = (vq){0};
    tail_add(&sums, lines, tails, values, indices, n, V, indexed);
    values += n, indices += n * ert_sparse_index_bytes(indexed);
    float *before = s->sums + filter * (size_t)V * VL, *rest = s->sums_tail + filter * ERT_SPARSE_TAIL;
    if (!between && s->first) {
      const float bias = s->bias ? s->bias[filter] : 0.0f;
#pragma GCC unroll 6
      for (int v = 0; v < V; v++) sums.acc[v] += vsplat(bias);
      sums.rest += bias - (vq){0};
    } else {
#pragma GCC unroll 6
      for (int v = 0; v < V; v++) sums.acc[v] += vload(before + v * VL);
      sums.rest += quarter_load(rest);
    }
    if (!between && s->last) {
      tail_finish(s, filter, &sums, V);
      continue;
    }
#pragma GCC unroll 6
    for (int v = 0; v < V; v++) vstore(before + v * VL, sums.acc[v]);
    quarter_store(rest, sums.rest);
  }
}

#define TAIL_KIND(V, name, indexed)                                                       \
  static void tail_##name##_##V(const ert_sparse *s) { tail_rows(s, V, indexed, false); } \
  static void tail_##name##_between_##V(const ert_sparse *s) { tail_rows(s, V, indexed, true); }
#define TAIL_DEFINE(V)                \
  TAIL_KIND(V, line, ERT_SPARSE_LINE) \
  TAIL_KIND(V, wide_line, ERT_SPARSE_WIDE_LINE) TAIL_KIND(V, gap, ERT_SPARSE_GAP)
SPARSE_TO_6(TAIL_DEFINE)
#undef TAIL_DEFINE
#undef TAIL_KIND

/* By number of whole vectors, what indices are, and whether the tile is between others. */
#define TAIL_KIND(V, name, indexed) [indexed] = {tail_##name##_##V, tail_##name##_between_##V},
#define TAIL_ENTRY(V)                                                                      \
  [V] = {TAIL_KIND(V, line, ERT_SPARSE_LINE) TAIL_KIND(V, wide_line, ERT_SPARSE_WIDE_LINE) \
             TAIL_KIND(V, gap, ERT_SPARSE_GAP)},
static void (*const tail_functions[][3][2])(const ert_sparse *s) = {SPARSE_TO_6(TAIL_ENTRY)};
#undef TAIL_ENTRY
#undef TAIL_KIND

#endif
