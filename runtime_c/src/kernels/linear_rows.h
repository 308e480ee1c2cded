/* Rows of a planar input, and those that a sparse constant matrix, a bias and an activation make of them. */
#ifndef ERT_KERNELS_LINEAR_ROWS_H
#define ERT_KERNELS_LINEAR_ROWS_H

#include "kernels/simd/simd.h"
#include "kernels/unary_kinds.h"
#include "kernels/walk.h"

/* x [.., depth], y [.., columns]. */
typedef struct ert_linear_rows {
  ert_walk walk; /* over the first elements of the rows of x and y */
  int64_t rows, depth, columns;
  ert_activation activation;
  uint32_t bias; /* the operand, which may be missing */
} ert_linear_rows;

/* Proves x, y and the bias of a step whose inputs are x, so many operands of the matrix, and perhaps the bias; all of them
 * planar, and but for the matrix of float32. */
edgert_status ert_linear_rows_read(const ert_prepare *p, uint32_t matrix, ert_linear_rows *out);

/* [columns], or NULL. */
static inline const float *ert_linear_bias(const ert_step *step, const ert_linear_rows *rows) {
  return rows->bias < step->n_in && step->in[rows->bias] ? step->in[rows->bias]->data : NULL;
}

/* Applies the activation to n stored outputs of a row. */
static inline void ert_linear_activate(const ert_linear_rows *rows, const ert_simd *simd, float *y, int64_t n) {
  const ert_activation *a = &rows->activation;
  if (a->kind != ERT_UNARY_IDENTITY) simd->unary(a->kind, a->alpha, a->beta, y, y, (size_t)n);
}

#endif
