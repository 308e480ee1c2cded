/* Reading index tensors, and the two walks that gathers and scatters share: one index an element, one tuple a slice. */
#ifndef ERT_KERNELS_INDICES_H
#define ERT_KERNELS_INDICES_H

#include "kernels/tensor.h"

edgert_status ert_expect_indices(const ert_prepare *p, const ert_tensor *indices); /* i32 or i64 */

static inline int64_t ert_index_at(const ert_tensor *indices, int64_t i) {
  return indices->dtype == EDGERT_I64 ? ((const int64_t *)indices->data)[i] : ((const int32_t *)indices->data)[i];
}

/* Indices of the shape of the data, smaller except along the axis: each replaces one coordinate of its own position. */
typedef struct ert_element_walk {
  int64_t strides[ERT_MAX_RANK]; /* of the data, elements; 0 along the axis */
  int64_t axis_stride, axis_size;
  int64_t step; /* from one index of a row to the next, besides what the index adds */
} ert_element_walk;

/* That every index has a place in `data`, which then has elements if `indices` has any. */
edgert_status ert_expect_element_indices(const ert_prepare *p, const ert_tensor *data, const ert_tensor *indices,
                                         int axis);
void ert_element_walk_init(const ert_tensor *data, const ert_tensor *indices, int axis, ert_element_walk *out);
/* Data offset of row `row` of the indices (a row is their last dimension), without what the indices add. */
int64_t ert_element_row(const ert_element_walk *walk, const ert_tensor *indices, int64_t row);

static inline int64_t ert_element_offset(const ert_element_walk *walk, const ert_tensor *indices, int64_t i) {
  return ert_wrap_index(ert_index_at(indices, i), walk->axis_size) * walk->axis_stride;
}

/* Indices [batch..., ..., depth]: each tuple of `depth` coordinates names a slice of data [batch..., depth dims..., slice]. */
typedef struct ert_tuple_walk {
  int64_t sizes[ERT_MAX_RANK], strides[ERT_MAX_RANK]; /* of the coordinates, elements */
  int64_t tuples, tuples_per_batch, batch_stride;
  int64_t slice; /* elements */
  int depth;
} ert_tuple_walk;

edgert_status ert_tuple_walk_init(const ert_prepare *p, const ert_tensor *data, const ert_tensor *indices, int batch,
                                  ert_tuple_walk *out);
/* Data offset of the slice that tuple `t` names. */
int64_t ert_tuple_offset(const ert_tuple_walk *walk, const ert_tensor *indices, int64_t t);

#endif
