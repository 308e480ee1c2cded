/* The shapes of a matrix multiplication by numpy's rules. */
#include "kernels/matmul_shape.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/tensor.h"

/* Batch strides of an operand whose batch dimensions are its first `n`. */
static void batch_strides(const ert_matmul_shape *s, const ert_tensor *t, int n, int64_t *strides) {
  for (int i = s->batch.rank - 1, from = n - 1; from >= 0; i--, from--)
    strides[i] = t->shape[from] == 1 ? 0 : ert_stride(t, from);
}

bool ert_batches_broadcast(ert_batches *all, const int64_t *shape, int n) {
  for (int i = all->rank - 1, from = n - 1; from >= 0; i--, from--) {
    if (shape[from] == 1 || shape[from] == all->extent[i]) continue;
    if (all->extent[i] != 1) return false;
    all->extent[i] = shape[from];
  }
  return true;
}

/* Strides of a bias that broadcasts to y: it is aligned with y's last dimensions. */
static edgert_status read_bias(const ert_prepare *p, const ert_tensor *bias, const ert_tensor *y, bool has_row,
                               bool has_column, ert_matmul_shape *s) {
  int64_t strides[ERT_MAX_RANK] = {0};
  if (bias->rank > y->rank) return ert_reject(p, "rank of the bias", "at most the output's", "%d", bias->rank);
  for (int i = y->rank - 1, from = bias->rank - 1; from >= 0; i--, from--) {
    if (bias->shape[from] != 1 && bias->shape[from] != y->shape[i])
      return ert_reject(p, "shape of the bias", "one that broadcasts to the output", "extent %" PRId64,
                        bias->shape[from]);
    if (bias->shape[from] != 1) strides[i] = ert_stride(bias, from);
  }
  int last = y->rank - 1;
  if (has_column) s->bias_column = strides[last--];
  if (has_row) s->bias_row = strides[last--];
  memcpy(s->bias_strides, strides, (size_t)s->batch.rank * sizeof *strides);
  return EDGERT_OK;
}

edgert_status ert_matmul_shape_read(const ert_prepare *p, const ert_tensor *a, const ert_tensor *b,
                                    const ert_tensor *bias, const ert_tensor *y, ert_matmul_shape *out) {
  if (a->rank < 1 || b->rank < 1) return ert_reject(p, "rank of the operands", "at least 1", "0");
  const bool has_row = a->rank > 1, has_column = b->rank > 1;
  const int a_batch = has_row ? a->rank - 2 : 0, b_batch = has_column ? b->rank - 2 : 0;
  ert_matmul_shape s = {.rows = has_row ? a->shape[a_batch] : 1,
                        .depth = a->shape[a->rank - 1],
                        .columns = has_column ? b->shape[b->rank - 1] : 1,
                        .batches = 1,
                        .batch = {a_batch > b_batch ? a_batch : b_batch, {1, 1, 1, 1, 1, 1, 1, 1}}};
  if (b->shape[b_batch] != s.depth)
    return ert_reject(p, "rows of the second operand", "the columns of the first", "%" PRId64, b->shape[b_batch]);
  if (!ert_batches_broadcast(&s.batch, a->shape, a_batch) || !ert_batches_broadcast(&s.batch, b->shape, b_batch))
    return ert_reject(p, "batch dimensions", "ones that broadcast together", "others");
  int64_t shape[ERT_MAX_RANK];
  uint32_t rank = (uint32_t)s.batch.rank;
  memcpy(shape, s.batch.extent, sizeof shape);
  if (has_row) shape[rank++] = s.rows;
  if (has_column) shape[rank++] = s.columns;
  ERT_TRY(ert_expect_shape(p, y, rank, shape));
  *out = s;
  if (y->elements == 0) return EDGERT_OK;
  for (int i = 0; i < s.batch.rank; i++) s.batches *= s.batch.extent[i];
  batch_strides(&s, a, a_batch, s.a_strides);
  batch_strides(&s, b, b_batch, s.b_strides);
  batch_strides(&s, y, s.batch.rank, s.y_strides);
  s.a_row = has_row ? ert_stride(a, a_batch) : s.depth;
  s.b_row = ert_stride(b, b_batch);
  s.y_row = has_row ? ert_stride(y, s.batch.rank) : s.columns;
  if (bias) ERT_TRY(read_bias(p, bias, y, has_row, has_column, &s));
  *out = s;
  return EDGERT_OK;
}

int64_t ert_batch_at(const ert_batches *batches, const int64_t *strides, int64_t index) {
  int64_t at = 0;
  for (int i = batches->rank - 1; i >= 0; i--) {
    at += index % batches->extent[i] * strides[i];
    index /= batches->extent[i];
  }
  return at;
}
