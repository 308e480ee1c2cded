/* The specification of the sparse inner loop: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_SPARSE_H
#define ERT_KERNELS_SIMD_SCALAR_SPARSE_H

#include <string.h>

#include "kernels/simd/sparse-values.h"

static size_t sparse_index(const ert_sparse *s, const uint8_t *indices) {
  uint16_t index;
  if (s->indexed != ERT_SPARSE_WIDE_LINE) return *indices;
  memcpy(&index, indices, sizeof index);
  return index % ERT_SPARSE_WIDE_LINES;
}

static void sparse_pixel(const ert_sparse *s, const float *values, const uint8_t *indices, const uint8_t *counts,
                         size_t filter, size_t row, size_t pixel) {
  const float *x = s->x + row * s->line + pixel;
  float *y = s->y + (ptrdiff_t)filter * s->y_filter + (ptrdiff_t)row * s->y_row + (ptrdiff_t)pixel;
  float *between = s->sums + filter * s->sums_filter + row * s->line + pixel;
  float sum = 0;
  const size_t channels = s->deep != 0 ? 4 : 1;
  for (size_t g = 0; g < s->groups; g++)
    for (size_t n = counts[g], line = 0; n > 0; n--, indices += ert_sparse_index_bytes(s->indexed)) {
      line = (s->indexed == ERT_SPARSE_GAP ? line : 0) + sparse_index(s, indices);
      const float *from = x + s->columns[g] + line * s->line;
      for (size_t i = 0; i < channels; i++, values += s->together) sum += *values * from[i * s->deep];
    }
  sum += s->first ? s->bias ? s->bias[filter] : 0.0f : *between;
  if (!s->last) {
    *between = sum;
    return;
  }
  if (s->residual)
    sum += s->residual[(ptrdiff_t)filter * s->residual_filter + (ptrdiff_t)row * s->residual_row + (ptrdiff_t)pixel];
  if (sum < s->lo) sum = s->lo;
  if (sum > s->hi) sum = s->hi;
  *y = sum;
}

static void sparse_run(const ert_sparse *s) {
  const size_t each = s->deep != 0 ? 4 : s->together;
  const float *values = s->values;
  const uint8_t *indices = s->indices;
  const uint8_t *counts = s->counts;
  for (size_t i = 0; i < s->filters; i += s->together, counts += s->counts_row) {
    const size_t first = s->sorted ? ert_sparse_filter(i, counts, s->together) : i;
    for (size_t filter = 0; filter < s->together; filter++)
      for (size_t row = 0; row < s->rows; row++)
        for (size_t pixel = 0; pixel < s->pixels; pixel++)
          sparse_pixel(s, values + filter, indices, counts, first + filter, row, pixel);
    for (size_t g = 0; g < s->groups; g++)
      values += counts[g] * each, indices += counts[g] * ert_sparse_index_bytes(s->indexed);
  }
}

static void sparse_copy(const ert_sparse_copy *c) {
  float *to = c->to;
  for (size_t channel = 0; channel < c->channels; channel++)
    for (size_t r = 0; r < c->n_runs; r++) {
      if (c->line > 0) to = c->to + r * c->apart + channel * c->line;
      const ert_sparse_run *run = c->runs + r;
      const float *from = c->x + (ptrdiff_t)channel * c->x_channel + run->from;
      for (size_t i = 0; i < run->before; i++) *to++ = 0;
      for (size_t i = 0; i < run->count; i++) *to++ = from[i * c->step];
      for (size_t i = 0; i < run->after; i++) *to++ = 0;
    }
}

static uint32_t sparse_farthest(const ert_gaps *g) {
  uint32_t most = 0;
  const uint8_t *gaps = g->gaps;
  for (size_t row = 0; row < g->rows; row++)
    for (size_t i = 0; i < g->groups; i++) {
      uint32_t sum = 0;
      for (int n = g->counts[(ptrdiff_t)row * g->counts_row + (ptrdiff_t)i]; n > 0; n--) sum += *gaps++;
      most = sum > most ? sum : most;
    }
  return most;
}

static void sparse_widen(ert_weights weights, const uint16_t *x, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = sparse_value((const char *)(x + i), weights);
}

static void sparse_matrix(const ert_sparse_matrix *m) {
  const ptrdiff_t bytes = ert_weights_bytes(m->weights);
  const size_t each = m->together * m->deep;
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  for (size_t column = 0; column < m->columns; column += m->together) {
    float sums[4][4][16] = {{{0}}}; /* of every fourth entry, by value and row */
    const float *x = m->x;
    for (size_t i = 0; i < m->counts[column / m->together]; i++) {
      x += *indices++ * m->deep * m->lanes;
      for (size_t n = 0; n < each; n++, values += bytes)
        for (size_t row = 0; row < m->lanes; row++)
          sums[i % 4][n][row] += sparse_value(values, m->weights) * x[(m->deep > 1 ? n : 0) * m->lanes + row];
    }
    for (size_t row = 0; row < m->lanes; row++) {
      float sum[4], *y = m->y + column * m->lanes + row;
      for (size_t n = 0; n < each; n++)
        sum[n] = (sums[0][n][row] + sums[1][n][row]) + (sums[2][n][row] + sums[3][n][row]);
      if (m->deep > 1)
        *y += (sum[0] + sum[1]) + (sum[2] + sum[3]);
      else
        for (size_t n = 0; n < each; n++) y[n * m->lanes] += sum[n];
    }
  }
}

#endif
