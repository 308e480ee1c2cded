/* Sizes of tensors, and the cutting of a step's work into tasks. */
#ifndef ERT_KERNELS_TENSOR_H
#define ERT_KERNELS_TENSOR_H

#include "base/dtype.h"
#include "base/kernel.h"

static inline int64_t ert_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ert_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ert_clamp64(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

/* Of two positive numbers. */
static inline int64_t ert_common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Product of the dimensions [from, to). Meaningful if the tensor has elements: then no part of the product can overflow. */
static inline int64_t ert_extent(const ert_tensor *t, int from, int to) {
  uint64_t product = 1;
  for (int i = from; i < to; ++i) product *= (uint64_t)t->shape[i];
  return (int64_t)product;
}

/* Elements between neighbours along dimension i, for PLANAR and BLOCK16; of BLOCK16 along the channels: between blocks of
 * 16. */
static inline int64_t ert_stride(const ert_tensor *t, int i) {
  const bool blocked = t->layout == ERT_LAYOUT_BLOCK16;
  const int channels = t->rank > 1 ? 1 : 0;
  int64_t stride = blocked ? 16 : 1;
  for (int d = i + 1; d < t->rank; ++d) stride *= blocked && d == channels ? (t->whole[d] + 15) / 16 : t->whole[d];
  return stride;
}

/* Elements of WEIGHT16 [group,K,C,kernel...], whose kernel is whole: between groups and between blocks of 16 of K. */
typedef struct ert_weight_strides {
  int64_t group, block;
} ert_weight_strides;

static inline ert_weight_strides ert_weight_strides_of(const ert_tensor *w) {
  int64_t block = 16;
  for (int d = 2; d < w->rank; ++d) block *= w->whole[d];
  return (ert_weight_strides){(w->whole[1] + 15) / 16 * block, block};
}

/* Where an index that may count from the end points, forced into [0, n); n > 0. */
static inline int64_t ert_wrap_index(int64_t index, int64_t n) {
  return ert_clamp64(index < 0 ? index + n : index, 0, n - 1);
}

/* Tasks for `units` equal pieces of work of `cost` element moves each: enough to balance the workers, none too small. */
static inline int64_t ert_cut(int64_t units, int64_t cost, uint32_t workers) {
  enum { SMALLEST = 16384, PER_WORKER = 4 };
  if (units <= 0) return 0;
  int64_t smallest = cost >= SMALLEST ? 1 : SMALLEST / ert_max64(cost, 1);
  return ert_clamp64(units / smallest, 1, workers > 1 ? (int64_t)workers * PER_WORKER : 1);
}

/* The first unit of task `task` of `tasks` over `units`; task == tasks gives the end. */
static inline int64_t ert_cut_at(int64_t units, int64_t tasks, int64_t task) {
  if (tasks <= 0) return 0;
  return units / tasks * task + ert_min64(task, units % tasks);
}

/* The same for flat elements in units of ERT_UNIT, `cost` moves an element. */
enum { ERT_UNIT = 256 }; /* a multiple of 16 */

static inline int64_t ert_cut_elements(int64_t elements, int64_t cost, uint32_t workers) {
  return ert_cut(elements / ERT_UNIT + (elements % ERT_UNIT != 0), ERT_UNIT * cost, workers);
}

static inline int64_t ert_cut_element_at(int64_t elements, int64_t tasks, int64_t task) {
  const int64_t units = elements / ERT_UNIT + (elements % ERT_UNIT != 0);
  return ert_min64(ert_cut_at(units, tasks, task) * ERT_UNIT, elements);
}

#endif
