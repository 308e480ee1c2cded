/* Cutting the work of a step evenly among workers, each of which runs one contiguous part of the tasks. */
#ifndef ERT_KERNELS_PARTITION_H
#define ERT_KERNELS_PARTITION_H

#include "kernels/tensor.h"

static inline int64_t ert_ceil_divide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* How many pieces each of `tasks` equal tasks must be cut into so that every worker gets as much; 1 if the tasks are so many
 * that an uneven share does not matter, or if the `products` of all are too few to be worth sharing. */
static inline int64_t ert_pieces(int64_t tasks, double products, int64_t workers) {
  enum { WORTH_SHARING = 1 << 17, MANY = 8 };
  if (workers < 2 || tasks >= workers * MANY || products < (double)WORTH_SHARING * (double)workers) return 1;
  return workers / ert_common_divisor(workers, tasks);
}

/* How much longer the slowest of `pieces` takes than if `extent` units were divisible at will: at least 1. */
static inline double ert_unevenness(int64_t extent, int64_t pieces) {
  return (double)ert_ceil_divide(extent, pieces) * (double)pieces / (double)extent;
}

#endif
