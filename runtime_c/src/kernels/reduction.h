/* The geometry of a reduction over any axes: which elements are kept apart, and which are folded into one.
 *
 * The order in which elements are folded depends on the sizes of the folded dimensions and on their place among the kept
 * ones, never on the sizes of those or on strides: a part of a tensor gives the bits of the whole. */
#ifndef ERT_KERNELS_REDUCTION_H
#define ERT_KERNELS_REDUCTION_H

#include "kernels/walk.h"

/* Offsets are those of x (operand 0) and y (operand 1). If trailing, outputs are made one at a time, and what is folded
 * lies in rows; otherwise rows of `kept` are columns, which are folded together. */
typedef struct ert_reduction {
  ert_walk kept;   /* the outputs */
  ert_walk folded; /* what meets in one output, from where `kept` leads */
  int64_t run;     /* size of the innermost folded dimensions, with no kept one in between: partial sums end with it */
  bool trailing;   /* the last dimension is folded */
} ert_reduction;

/* The attribute `axes`: distinct and sorted dimensions of a tensor of this rank. */
edgert_status ert_axes(const ert_prepare *p, int rank, bool chosen[ERT_WALK_RANK]);

/* `y_stride`: of y along the dimensions of x, 0 along those it has not. Rows are contiguous in the first `contiguous`
 * operands. */
void ert_reduction_plan(const ert_stored *x, const int64_t *y_stride, const bool *folded, int contiguous,
                        ert_reduction *out);

/* The n folded elements of float32 from `at` on, where the last call ended: copied to `scratch` unless they are a part
 * of a row. The cursor is that of these calls. */
const float *ert_reduction_gather(const ert_walk *folded, ert_cursor *c, const float *x, int64_t at, int64_t n,
                                  float *scratch);
static inline const float *ert_reduction_take(const ert_walk *folded, ert_cursor *c, const float *x, int64_t at,
                                              int64_t n, float *scratch) {
  return folded->rank == 1 ? x + at : ert_reduction_gather(folded, c, x, at, n, scratch);
}

#endif
