/* The shapes of a matrix multiplication by numpy's rules, proven and reduced to batches of plain matrices. */
#ifndef ERT_KERNELS_MATMUL_SHAPE_H
#define ERT_KERNELS_MATMUL_SHAPE_H

#include "base/kernel.h"

/* Batches of matrices, numbered row-major over these dimensions. */
typedef struct ert_batches {
  int rank;
  int64_t extent[ERT_MAX_RANK];
} ert_batches;

/* Merges the `n` batch dimensions of an operand into those of all, which start as ones; false if they do not broadcast. */
bool ert_batches_broadcast(ert_batches *all, const int64_t *shape, int n);

/* Element of an operand at which batch `index` starts, given its strides, 0 where it is broadcast. */
int64_t ert_batch_at(const ert_batches *batches, const int64_t *strides, int64_t index);

/* y[batch] = a[batch'] @ b[batch''] + bias. Strides in elements, 0 where an operand is broadcast. One-dimensional operands are one row (a) or one column (b). */
typedef struct ert_matmul_shape {
  int64_t batches, rows, depth, columns;
  ert_batches batch;
  int64_t a_strides[ERT_MAX_RANK], b_strides[ERT_MAX_RANK], bias_strides[ERT_MAX_RANK], y_strides[ERT_MAX_RANK];
  int64_t a_row, b_row, y_row;   /* strides between the rows of a matrix */
  int64_t bias_row, bias_column; /* strides of the bias within a matrix */
} ert_matmul_shape;

/* Proves the shapes of a, b, y and the bias (or NULL); leaves dtypes and layouts to the caller. */
edgert_status ert_matmul_shape_read(const ert_prepare *p, const ert_tensor *a, const ert_tensor *b,
                                    const ert_tensor *bias, const ert_tensor *y, ert_matmul_shape *out);

#endif
