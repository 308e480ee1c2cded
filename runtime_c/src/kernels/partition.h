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

/* Where each of `pieces` ends that neighbouring units are cut into so that each is about as much work; work(of, unit) is that
 * of one unit, not negative. */
static inline void ert_cut_by_work(int64_t units, int64_t pieces, int64_t (*work)(const void *of, int64_t unit),
                                   const void *of, int64_t *ends) {
  double all = 0, done = 0;
  int64_t piece = 0;
  const int64_t weighed = pieces > 1 ? units : 0;
  for (int64_t unit = 0; unit < weighed; unit++) all += (double)work(of, unit);
  for (int64_t unit = 0; unit < weighed; unit++) {
    const double own = (double)work(of, unit);
    for (; piece < pieces - 1 && (done + own / 2) * (double)pieces > all * (double)(piece + 1); piece++)
      ends[piece] = unit;
    done += own;
  }
  for (; piece < pieces; piece++) ends[piece] = units;
}

#endif
