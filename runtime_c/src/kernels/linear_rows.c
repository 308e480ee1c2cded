/* What kernels of sparse matrices prove of all their operands but the matrix. */
#include "kernels/linear_rows.h"

#include <string.h>

#include "kernels/tensor.h"

edgert_status ert_linear_rows_read(const ert_prepare *p, uint32_t matrix, ert_linear_rows *out) {
  const ert_step *step = p->step;
  const uint32_t at = 1 + matrix;
  *out = (ert_linear_rows){.bias = at};
  ERT_TRY(ert_expect_operands(p, at, at + 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = step->in[0], *y = step->out[0], *bias = step->n_in > at ? step->in[at] : NULL;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (x->rank < 1 || y->rank < 1) return ert_reject(p, "rank of the input", "at least 1", "0");
  int64_t y_shape[ERT_MAX_RANK];
  memcpy(y_shape, x->shape, sizeof y_shape);
  out->depth = x->shape[x->rank - 1];
  out->columns = y_shape[x->rank - 1] = y->shape[y->rank - 1];
  out->rows = out->columns > 0 ? y->elements / out->columns : 0;
  ERT_TRY(ert_expect_shape(p, y, x->rank, y_shape));
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_shape(p, bias, 1, &out->columns));
  }
  out->walk.operands = 2;
  for (int i = 0; i < x->rank - 1; i++)
    ert_walk_push(&out->walk, x->shape[i], (const int64_t[]){ert_stride(x, i), ert_stride(y, i)});
  ert_walk_merge(&out->walk, 0);
  return ert_activation_read(p, &out->activation);
}
