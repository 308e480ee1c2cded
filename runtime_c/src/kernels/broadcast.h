/* Numpy broadcasting of up to three operands to an output, as a walk. */
#ifndef ERT_KERNELS_BROADCAST_H
#define ERT_KERNELS_BROADCAST_H

#include "kernels/walk.h"

/* Proves that the first `operands` inputs broadcast to exactly output 0, which is the last operand of the walk. Either
 * all tensors are planar; or the output is BLOCK16, and each input is BLOCK16 of the same rank and channels, or planar
 * with one element. */
edgert_status ert_broadcast_plan(const ert_prepare *p, int operands, ert_walk *out);

/* Which of two operands is a row that repeats while the other and the output move on, from row to row without gaps;
 * -1: neither. */
int ert_broadcast_repeated(const ert_walk *w);

/* Then the two inner dimensions become one long row, along which that operand has the stride. */
void ert_broadcast_join(ert_walk *w, int repeated, int64_t stride);

#endif
