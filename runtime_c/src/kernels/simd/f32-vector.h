/* Products of a vector and a matrix, which is read where it lies: each of its elements is needed only once. */
#ifndef ERT_KERNELS_SIMD_F32_VECTOR_H
#define ERT_KERNELS_SIMD_F32_VECTOR_H

#include "kernels/simd/simd.h"

enum {
  VECTOR_MOST = ERT_VECTOR_BYTES == 32 ? 4 : 8
}; /* vectors of outputs: each has a chain and the sum of those before */

#define VECTOR_EACH(v) _Pragma("GCC unroll 8") for (int v = 0; v < V; v++)

ERT_INLINE vf vector_load(const float *p, size_t n) { return n == VL ? vload(p) : vload_part(p, n); }

/* The outputs of V vectors of columns, of which the last one has `last`. */
ERT_INLINE void vector_block(const ert_vector_product *p, size_t column, size_t last, int V) {
  const float *row = p->matrix + column;
  float *y = p->y + column;
  const vf lo = vsplat(p->lo), hi = vsplat(p->hi);
  vf acc[VECTOR_MOST], total[VECTOR_MOST];
  VECTOR_EACH(v) acc[v] = total[v] = vzero();
  for (size_t k = 0; k < p->depth;) {
    const size_t end = k + ERT_CHAIN < p->depth ? k + ERT_CHAIN : p->depth, full = end % ERT_CHAIN == 0;
    const bool first = k == 0;
    for (; k < end; k++, row += p->pitch) {
      const vf x = vsplat(p->x[k]);
      VECTOR_EACH(v) acc[v] += x * vector_load(row + v * VL, v + 1 < V ? VL : last);
    }
    if (full) VECTOR_EACH(v) total[v] = first ? acc[v] : total[v] + acc[v], acc[v] = vzero();
  }
  if (p->depth >= ERT_CHAIN) VECTOR_EACH(v) acc[v] += total[v];
  VECTOR_EACH(v) {
    const size_t n = v + 1 < V ? VL : last;
    if (p->add) acc[v] += vector_load(y + v * VL, n);
    vstore_part(y + v * VL, vmin(hi, vmax(lo, acc[v])), n);
  }
}

static void vector_columns(const ert_vector_product *p) {
  size_t column = 0;
  for (; column + VECTOR_MOST * VL <= p->outputs; column += VECTOR_MOST * VL) vector_block(p, column, VL, VECTOR_MOST);
  for (; column + VL < p->outputs; column += 2 * VL) {
    const size_t left = p->outputs - column;
    vector_block(p, column, left < 2 * VL ? left - VL : VL, 2);
  }
  if (column < p->outputs) vector_block(p, column, p->outputs - column, 1);
}

/* The products of R rows from `row` on. */
ERT_INLINE void vector_dots(const ert_vector_product *p, size_t row, int R) {
  const float *matrix = p->matrix + (ptrdiff_t)row * p->pitch;
  vf even[4], odd[4];
  for (int r = 0; r < R; r++) even[r] = odd[r] = vzero();
  size_t k = 0;
  for (; k + 2 * VL <= p->depth; k += 2 * VL) {
    const vf x = vload(p->x + k), next = vload(p->x + k + VL);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      even[r] += x * vload(matrix + r * p->pitch + k);
      odd[r] += next * vload(matrix + r * p->pitch + k + VL);
    }
  }
  for (size_t n; k < p->depth; k += n) {
    n = p->depth - k < VL ? p->depth - k : VL;
    const vf x = vload_part(p->x + k, n);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) even[r] += x * vload_part(matrix + r * p->pitch + k, n);
  }
  for (int r = 0; r < R; r++) even[r] += odd[r];
  const vf sums = R == 4 ? fold_four(ERT_FOLD_SUM, even[0], even[1], even[2], even[3]) : even[0];
  for (int r = 0; r < R; r++) {
    float *y = p->y + (ptrdiff_t)(row + (size_t)r) * p->y_step;
    const float sum = (R == 4 ? sums[r * (VL / 4)] : fold_lanes(ERT_FOLD_SUM, sums)) + (p->add ? *y : 0.0f);
    *y = sum < p->lo ? p->lo : sum > p->hi ? p->hi : sum;
  }
}

static void vector_rows(const ert_vector_product *p) {
  size_t row = 0;
  for (; row + 4 <= p->outputs; row += 4) vector_dots(p, row, 4);
  for (; row < p->outputs; row++) vector_dots(p, row, 1);
}

#undef VECTOR_EACH

#endif
