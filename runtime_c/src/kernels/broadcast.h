/* Numpy broadcasting of up to three operands: dimensions merged once, then walked as rows of the output. */
#ifndef ERT_KERNELS_BROADCAST_H
#define ERT_KERNELS_BROADCAST_H

#include "base/kernel.h"

enum { ERT_BROADCAST_MAX = ERT_MAX_RANK + 1, ERT_BROADCAST_OPERANDS = 3 };

/* Output shape with the element strides of each operand, innermost dimension last and at least one dimension. Along the
 * innermost one, whose size is 1 only if there is one element, every stride is 0 or 1. */
typedef struct ert_broadcast {
  int rank, operands;
  int64_t elements; /* of the output, as stored */
  int64_t shape[ERT_BROADCAST_MAX];
  int64_t stride[ERT_BROADCAST_OPERANDS][ERT_BROADCAST_MAX];
} ert_broadcast;

/* Where a walk stands: an index of the innermost dimension, and the offset of each operand's current row. */
typedef struct ert_broadcast_cursor {
  int64_t index[ERT_BROADCAST_MAX];
  int64_t offset[ERT_BROADCAST_OPERANDS];
} ert_broadcast_cursor;

/* Proves that `operands` inputs broadcast to exactly output 0. Either all tensors are planar; or the output is BLOCK16,
 * and each operand is BLOCK16 of the same rank and channels, or planar with one element. */
edgert_status ert_broadcast_plan(const ert_prepare *p, int operands, ert_broadcast *out);

/* The cursor of flat output element `at`. */
void ert_broadcast_seek(const ert_broadcast *b, int64_t at, ert_broadcast_cursor *cursor);

/* To the start of the next row. */
void ert_broadcast_next(const ert_broadcast *b, ert_broadcast_cursor *cursor);

#endif
