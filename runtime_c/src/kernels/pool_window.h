/* The windows of a pooling step: geometry lifted to three spatial dimensions, and the loops over single outputs. */
#ifndef ERT_KERNELS_POOL_WINDOW_H
#define ERT_KERNELS_POOL_WINDOW_H

#include "kernels/blocked.h"
#include "kernels/tensor.h"

typedef enum ert_pool_kind { ERT_POOL_MAX, ERT_POOL_AVERAGE, ERT_POOL_LP } ert_pool_kind;

/* One dimension. */
typedef struct ert_pool_axis {
  int64_t in, out, kernel, stride, dilation, begin, end; /* begin, end: padding */
} ert_pool_axis;

typedef struct ert_pool_shape {
  ert_pool_axis axis[3];     /* missing leading dimensions have one element and a window of one */
  ert_strides x, y, indices; /* indices: of the second output */
  int64_t channels, pixels;  /* pixels: of an input plane */
  int kind;
  int64_t p;
  bool include_pad, column_major;
} ert_pool_shape;

/* The positions of a window that lie inside the input, the first at `first`, and how many an average divides by. */
typedef struct ert_pool_span {
  int64_t first, count, divisor;
} ert_pool_span;

static inline int64_t ert_pool_steps(int64_t distance, int64_t step) {
  return step == 1 ? distance : (distance + step - 1) / step;
}

static inline ert_pool_span ert_pool_span_at(const ert_pool_shape *s, int dimension, int64_t output) {
  const ert_pool_axis *a = &s->axis[dimension];
  const int64_t start = output * a->stride - a->begin;
  const int64_t skipped = start < 0 ? ert_pool_steps(-start, a->dilation) : 0;
  const int64_t stop = start < a->in ? ert_min64(a->kernel, ert_pool_steps(a->in - start, a->dilation)) : 0;
  const int64_t limit = a->in + a->end - start, count = ert_max64(stop - skipped, 0);
  const int64_t padded = limit > 0 ? ert_min64(a->kernel, ert_pool_steps(limit, a->dilation)) : 0;
  return (ert_pool_span){start + skipped * a->dilation, count, s->include_pad ? padded : count};
}

/* Rows [begin, end) of outputs, counted over planes and the two outer dimensions, one output at a time. */
typedef void (*ert_pool_rows)(const ert_pool_shape *s, const void *x, void *y, int64_t *indices, int64_t begin,
                              int64_t end);

/* Maxima of an element type, with indices of the first of equals unless `indices` is NULL; or NULL. */
ert_pool_rows ert_pool_max_rows(uint8_t dtype);
/* Averages and Lp norms of float32. */
void ert_pool_sum_rows(const ert_pool_shape *s, const void *x, void *y, int64_t *indices, int64_t begin, int64_t end);

#endif
