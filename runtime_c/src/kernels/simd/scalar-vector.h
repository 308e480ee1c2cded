/* The specification of products of a vector and a matrix. */
#ifndef ERT_KERNELS_SIMD_SCALAR_VECTOR_H
#define ERT_KERNELS_SIMD_SCALAR_VECTOR_H

#include "kernels/simd/simd.h"

static void vector_store(const ert_vector_product *p, float *y, float sum) {
  if (p->add) sum += *y;
  *y = sum < p->lo ? p->lo : sum > p->hi ? p->hi : sum;
}

static void vector_columns(const ert_vector_product *p) {
  for (size_t i = 0; i < p->outputs; i++) {
    float sum = 0.0f, total = 0.0f;
    for (size_t k = 0; k < p->depth; k++) {
      sum += p->x[k] * p->matrix[(ptrdiff_t)k * p->pitch + (ptrdiff_t)i];
      if ((k + 1) % ERT_CHAIN != 0) continue;
      total = k + 1 == ERT_CHAIN ? sum : total + sum;
      sum = 0.0f;
    }
    vector_store(p, p->y + i, p->depth < ERT_CHAIN ? sum : sum + total);
  }
}

/* In float64, to be exact where vectors are by having many sums. */
static void vector_rows(const ert_vector_product *p) {
  for (size_t i = 0; i < p->outputs; i++) {
    const float *row = p->matrix + (ptrdiff_t)i * p->pitch;
    double sum = 0;
    for (size_t k = 0; k < p->depth; k++) sum += (double)p->x[k] * (double)row[k];
    vector_store(p, p->y + (ptrdiff_t)i * p->y_step, (float)sum);
  }
}

#endif
