/* The sums of a filter's pixels in SPARSE_VECTORs of SPARSE_VL floats; included by f32-sparse.h for each width, the operations
 * of which OP names. */

/* acc += value * line, for n non-zeros. */
ERT_INLINE void OP(add)(SPARSE_VECTOR *acc, const float *x, size_t line, const float *values, const uint8_t *indices,
                        size_t n, int V) {
#define SPARSE_STEP(weight, index)                                                                     \
  do {                                                                                                 \
    const SPARSE_VECTOR w = (weight);                                                                  \
    const float *from = (const float *)(const void *)((const char *)x + (size_t)(index) * line);       \
    _Pragma("GCC unroll 24") for (int v = 0; v < V; v++) acc[v] += OP(load)(from + v * SPARSE_VL) * w; \
  } while (0)
  for (; n >= 4; n -= 4, values += 4, indices += 4) {
    uint32_t four;
    memcpy(&four, indices, sizeof four);
    const SPARSE_VECTOR weights = OP(four)(values);
    SPARSE_STEP(OP(lane)(weights, 0), four & 255);
    SPARSE_STEP(OP(lane)(weights, 1), four >> 8 & 255);
    SPARSE_STEP(OP(lane)(weights, 2), four >> 16 & 255);
    SPARSE_STEP(OP(lane)(weights, 3), four >> 24);
  }
  for (; n > 0; n--, values++, indices++) SPARSE_STEP(*values - (SPARSE_VECTOR){0}, *indices);
#undef SPARSE_STEP
}

/* Where the vectors of a filter lie in y and in the residual, and how many of their floats are pixels. */
typedef struct OP(places) {
  ptrdiff_t y[SPARSE_MOST / SPARSE_VL], residual[SPARSE_MOST / SPARSE_VL];
  size_t pixels[SPARSE_MOST / SPARSE_VL];
} OP(places);

ERT_INLINE void OP(find)(const ert_sparse *s, OP(places) * at, int V) {
  size_t row = 0, pixel = 0;
  for (int v = 0; v < V; v++) {
    at->y[v] = (ptrdiff_t)row * s->y_row + (ptrdiff_t)pixel;
    at->residual[v] = (ptrdiff_t)row * s->residual_row + (ptrdiff_t)pixel;
    const size_t left = pixel < s->pixels ? s->pixels - pixel : 0;
    at->pixels[v] = left < SPARSE_VL ? left : SPARSE_VL;
    pixel += SPARSE_VL;
    if (pixel == s->line && row + 1 < s->rows) row++, pixel = 0;
  }
}

/* acc += what the sums of a filter start from: bias and residual, or the sums of the tiles before. */
ERT_INLINE void OP(start)(const ert_sparse *s, const OP(places) * at, size_t filter, SPARSE_VECTOR *acc, int V) {
  if (!s->first) {
    const float *sums = s->sums + filter * s->sums_filter;
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) acc[v] += OP(load)(sums + v * SPARSE_VL);
    return;
  }
  const SPARSE_VECTOR bias = (s->bias ? s->bias[filter] : 0.0f) - (SPARSE_VECTOR){0};
  if (!s->residual) {
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) acc[v] += bias;
    return;
  }
  const float *residual = s->residual + (ptrdiff_t)filter * s->residual_filter;
#pragma GCC unroll 24
  for (int v = 0; v < V; v++) {
    const float *from = residual + at->residual[v];
    acc[v] += bias + (at->pixels[v] == SPARSE_VL ? OP(load)(from) : OP(load_part)(from, at->pixels[v]));
  }
}

ERT_INLINE void OP(finish)(const ert_sparse *s, const OP(places) * at, size_t filter, const SPARSE_VECTOR *acc, int V) {
  if (!s->last) {
    float *sums = s->sums + filter * s->sums_filter;
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) OP(store)(sums + v * SPARSE_VL, acc[v]);
    return;
  }
  const SPARSE_VECTOR lo = s->lo - (SPARSE_VECTOR){0}, hi = s->hi - (SPARSE_VECTOR){0};
  float *y = s->y + (ptrdiff_t)filter * s->y_filter;
#pragma GCC unroll 24
  for (int v = 0; v < V; v++) {
    const SPARSE_VECTOR sum = OP(min)(hi, OP(max)(lo, acc[v]));
    if (at->pixels[v] == SPARSE_VL)
      OP(store)(y + at->y[v], sum);
    else
      OP(store_part)(y + at->y[v], sum, at->pixels[v]);
  }
}

ERT_INLINE void OP(rows)(const ert_sparse *s, int V) {
  OP(places) at;
  OP(find)(s, &at, V);
  const float *values = s->values;
  const uint8_t *indices = s->indices, *counts = s->counts;
  const size_t line = s->line * sizeof(float), last = s->groups - 1;
  for (size_t filter = 0; filter < s->filters; filter++, counts += s->counts_filter) {
    SPARSE_VECTOR acc[SPARSE_MOST / SPARSE_VL];
#pragma GCC unroll 24
    for (int v = 0; v < V; v++) acc[v] = (SPARSE_VECTOR){0};
    for (size_t g = 0;; g++) {
      const size_t n = counts[g];
      OP(add)(acc, s->shift ? s->x : s->x + s->columns[g], line, values, indices, n, V);
      values += n, indices += n;
      if (g == last) break;
      if (!s->shift) continue;
#pragma GCC unroll 24
      for (int v = 0; v < V; v++) acc[v] = OP(move)(acc[v], v + 1 < V ? acc[v + 1] : (SPARSE_VECTOR){0});
    }
    OP(start)(s, &at, filter, acc, V);
    OP(finish)(s, &at, filter, acc, V);
  }
}

#define SPARSE_DEFINE(V) \
  static void OP(rows_##V)(const ert_sparse *s) { OP(rows)(s, V); }
SPARSE_COUNTS(SPARSE_DEFINE)
#undef SPARSE_DEFINE

#define SPARSE_ENTRY(V) [V] = OP(rows_##V),
static void (*const OP(all)[])(const ert_sparse *s) = {SPARSE_COUNTS(SPARSE_ENTRY)};
#undef SPARSE_ENTRY
