/* Proving and walking index tensors. */
#include "kernels/indices.h"

edgert_status ert_expect_indices(const ert_prepare *p, const ert_tensor *indices) {
  if (indices->dtype != EDGERT_I32 && indices->dtype != EDGERT_I64)
    return ert_reject(p, "element type of the indices", "int32 or int64", "type %d", indices->dtype);
  return EDGERT_OK;
}

edgert_status ert_expect_element_indices(const ert_prepare *p, const ert_tensor *data, const ert_tensor *indices,
                                         int axis) {
  if (indices->rank != data->rank) return ert_reject(p, "rank of the indices", "that of the data", "%d", indices->rank);
  for (int i = 0; i < data->rank; ++i) {
    if (i != axis && indices->shape[i] > data->shape[i])
      return ert_reject(p, "shape of the indices", "at most the data's except along the axis", "%lld in dimension %d",
                        (long long)indices->shape[i], i);
  }
  if (indices->elements > 0 && data->elements == 0) return ert_reject(p, "data", "something to index", "no elements");
  return EDGERT_OK;
}

void ert_element_walk_init(const ert_tensor *data, const ert_tensor *indices, int axis, ert_element_walk *out) {
  for (int i = 0; i < data->rank; ++i) out->strides[i] = i == axis ? 0 : ert_extent(data, i + 1, data->rank);
  out->axis_stride = ert_extent(data, axis + 1, data->rank);
  out->axis_size = data->shape[axis];
  out->step = out->strides[indices->rank - 1];
}

int64_t ert_element_row(const ert_element_walk *walk, const ert_tensor *indices, int64_t row) {
  int64_t offset = 0;
  for (int i = indices->rank - 2; i >= 0; --i) {
    offset += row % indices->shape[i] * walk->strides[i];
    row /= indices->shape[i];
  }
  return offset;
}

edgert_status ert_tuple_walk_init(const ert_prepare *p, const ert_tensor *data, const ert_tensor *indices, int batch,
                                  ert_tuple_walk *out) {
  int64_t depth = indices->shape[indices->rank - 1];
  if (depth > data->rank - batch)
    return ert_reject(p, "last dimension of the indices", "at most the data's rank without batch dimensions", "%lld",
                      (long long)depth);
  for (int i = 0; i < batch; ++i) {
    if (indices->shape[i] != data->shape[i])
      return ert_reject(p, "batch dimensions of the indices", "those of the data", "%lld in dimension %d",
                        (long long)indices->shape[i], i);
  }
  *out = (ert_tuple_walk){.depth = (int)depth,
                          .tuples = ert_extent(indices, 0, indices->rank - 1),
                          .tuples_per_batch = ert_extent(indices, batch, indices->rank - 1),
                          .batch_stride = ert_extent(data, batch, data->rank),
                          .slice = ert_extent(data, batch + (int)depth, data->rank)};
  for (int i = 0; i < out->depth; ++i) {
    out->sizes[i] = data->shape[batch + i];
    out->strides[i] = ert_extent(data, batch + i + 1, data->rank);
  }
  return EDGERT_OK;
}

int64_t ert_tuple_offset(const ert_tuple_walk *walk, const ert_tensor *indices, int64_t t) {
  int64_t offset = t / walk->tuples_per_batch * walk->batch_stride;
  for (int i = 0; i < walk->depth; ++i)
    offset += ert_wrap_index(ert_index_at(indices, t * walk->depth + i), walk->sizes[i]) * walk->strides[i];
  return offset;
}
