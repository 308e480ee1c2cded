/* Merging the dimensions of broadcast operands, and walking their rows. */
#include "kernels/broadcast.h"

#include <string.h>

#include "kernels/tensor.h"

/* The dimensions of a tensor as it is stored: blocks of 16 have their lanes as the last one. */
static int stored_shape(const ert_tensor *t, int rank, int64_t *shape) {
  bool blocks = t->layout == ERT_LAYOUT_BLOCK16;
  for (int i = 0; i < rank; i++) shape[i] = 1;
  for (int i = 0; i < t->rank; i++) shape[rank - t->rank + i - (blocks ? 1 : 0)] = t->shape[i];
  if (blocks) {
    int channel = t->rank == 1 ? 0 : 1;
    shape[channel] = (shape[channel] + 15) / 16;
    shape[rank - 1] = 16;
  }
  return rank;
}

static edgert_status check_blocks(const ert_prepare *p, const ert_tensor *t, const ert_tensor *y) {
  if (t->layout == ERT_LAYOUT_PLANAR && t->elements == 1) return EDGERT_OK;
  ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_BLOCK16));
  int channel = y->rank == 1 ? 0 : 1;
  if (t->rank != y->rank || t->rank == 0 || t->shape[channel] != y->shape[channel])
    return ert_reject(p, "operand in blocks of 16", "the rank and channels of the output", "rank %d", t->rank);
  return EDGERT_OK;
}

/* Whether dimension i continues dimension i + 1 in every operand. */
static bool continues(const ert_broadcast *b, int i) {
  for (int k = 0; k < b->operands; k++)
    if (b->stride[k][i] != b->stride[k][i + 1] * b->shape[i + 1]) return false;
  return true;
}

static void remove_dimension(ert_broadcast *b, int i) {
  size_t tail = (size_t)(b->rank - i - 1) * sizeof(int64_t);
  memmove(b->shape + i, b->shape + i + 1, tail);
  for (int k = 0; k < b->operands; k++) memmove(b->stride[k] + i, b->stride[k] + i + 1, tail);
  b->rank--;
}

static void merge(ert_broadcast *b) {
  for (int i = b->rank - 1; i >= 0 && b->rank > 1; i--)
    if (b->shape[i] == 1) remove_dimension(b, i);
  for (int i = b->rank - 2; i >= 0; i--) {
    if (!continues(b, i)) continue;
    b->shape[i + 1] *= b->shape[i];
    remove_dimension(b, i);
  }
}

edgert_status ert_broadcast_plan(const ert_prepare *p, int operands, ert_broadcast *out) {
  const ert_tensor *y = p->step->out[0];
  bool blocks = y->layout == ERT_LAYOUT_BLOCK16;
  if (!blocks) ERT_TRY(ert_expect_planar(p));
  int rank = y->rank + (blocks ? 1 : 0);
  *out = (ert_broadcast){.rank = rank > 0 ? rank : 1, .operands = operands, .elements = 1};
  rank = stored_shape(y, out->rank, out->shape);

  int64_t widest[ERT_BROADCAST_MAX];
  for (int i = 0; i < rank; i++) widest[i] = 1;
  for (int k = 0; k < operands; k++) {
    const ert_tensor *t = p->step->in[k];
    int64_t shape[ERT_BROADCAST_MAX], stride = 1;
    if (blocks) ERT_TRY(check_blocks(p, t, y));
    if (t->rank > y->rank) return ert_reject(p, "rank of an operand", "at most that of the output", "%d", t->rank);
    if (blocks && t->layout == ERT_LAYOUT_PLANAR)
      for (int i = 0; i < rank; i++) shape[i] = 1;
    else
      stored_shape(t, rank, shape);
    for (int i = rank - 1; i >= 0; i--) {
      if (shape[i] != 1 && shape[i] != out->shape[i])
        return ert_reject(p, "shape of an operand", "1 or the output's size in every dimension", "%lld instead of %lld",
                          (long long)shape[i], (long long)out->shape[i]);
      if (shape[i] != 1) widest[i] = shape[i];
      out->stride[k][i] = shape[i] == 1 ? 0 : stride;
      if (t->elements) stride *= shape[i];
    }
  }
  for (int i = 0; i < rank; i++)
    if (widest[i] != out->shape[i])
      return ert_reject(p, "shape of the output", "that of its operands broadcast", "%lld in dimension %d",
                        (long long)out->shape[i], i);
  if (y->elements == 0) {
    out->elements = 0;
    return EDGERT_OK;
  }
  for (int i = 0; i < rank; i++) out->elements *= out->shape[i];
  merge(out);
  return EDGERT_OK;
}

static void locate(const ert_broadcast *b, ert_broadcast_cursor *cursor) {
  for (int k = 0; k < b->operands; k++) {
    cursor->offset[k] = 0;
    for (int i = 0; i < b->rank - 1; i++) cursor->offset[k] += cursor->index[i] * b->stride[k][i];
  }
}

void ert_broadcast_seek(const ert_broadcast *b, int64_t at, ert_broadcast_cursor *cursor) {
  for (int i = b->rank - 1; i >= 0; i--) {
    cursor->index[i] = at % b->shape[i];
    at /= b->shape[i];
  }
  locate(b, cursor);
}

void ert_broadcast_next(const ert_broadcast *b, ert_broadcast_cursor *cursor) {
  cursor->index[b->rank - 1] = 0;
  for (int i = b->rank - 2; i >= 0; i--) {
    for (int k = 0; k < b->operands; k++) cursor->offset[k] += b->stride[k][i];
    if (++cursor->index[i] < b->shape[i]) return;
    for (int k = 0; k < b->operands; k++) cursor->offset[k] -= b->stride[k][i] * b->shape[i];
    cursor->index[i] = 0;
  }
}
