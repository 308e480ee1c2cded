/* Reductions of integers and booleans, and the numbers of all kinds. */
#ifndef ERT_KERNELS_REDUCE_INTEGER_H
#define ERT_KERNELS_REDUCE_INTEGER_H

#include "kernels/reduction.h"

/* In the order of REDUCE_KINDS of packer/ir/ops/reduce.py. */
typedef enum ert_reduce_kind {
  ERT_REDUCE_SUM,
  ERT_REDUCE_MEAN,
  ERT_REDUCE_PROD,
  ERT_REDUCE_MAX,
  ERT_REDUCE_MIN,
  ERT_REDUCE_L1,
  ERT_REDUCE_L2,
  ERT_REDUCE_LOG_SUM,
  ERT_REDUCE_LOG_SUM_EXP,
  ERT_REDUCE_SUM_SQUARE,
} ert_reduce_kind;

/* Element `to` of y from the elements of x that meet in it, the first at `from`. */
typedef void (*ert_reduce_integer)(int kind, const ert_reduction *r, const void *x, int64_t from, void *y, int64_t to);

/* NULL if the kind does not take the element type. */
ert_reduce_integer ert_reduce_integer_find(int kind, int dtype);

#endif
