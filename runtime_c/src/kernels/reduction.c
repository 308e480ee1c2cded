/* Planning reductions, and walking their dimensions. */
#include "kernels/reduction.h"

edgert_status ert_axes(const ert_prepare *p, int rank, bool *chosen) {
  const ert_attribute *found = ert_attribute_find(p, "axes");
  const int64_t *axes;
  uint32_t n = found ? found->n_ints : 1;
  if (n > ERT_MAX_RANK) return ert_reject(p, "attribute 'axes'", "at most 8 dimensions", "%u", n);
  for (int i = 0; i < ERT_MAX_RANK; i++) chosen[i] = false;
  ERT_TRY(ert_ints(p, "axes", n, 0, rank - 1, &axes));
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0 && axes[i] <= axes[i - 1]) return ert_reject(p, "attribute 'axes'", "ascending dimensions", "others");
    chosen[axes[i]] = true;
  }
  return EDGERT_OK;
}

/* Sizes of an empty tensor may multiply beyond 64 bits before they meet the 0. */
static int64_t product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static void push(ert_walk *w, int64_t shape, int64_t stride) {
  w->shape[w->rank] = shape;
  w->stride[w->rank++] = stride;
}

void ert_reduction_plan(const ert_tensor *x, const bool *folded, ert_reduction *out) {
  *out = (ert_reduction){.n = 1, .stride = 0, .width = 1, .count = 1, .outputs = 1};
  int64_t shape[ERT_MAX_RANK], stride[ERT_MAX_RANK], next = 1;
  bool fold[ERT_MAX_RANK];
  int rank = 0; /* merged dimensions, the innermost first */
  for (int i = x->rank - 1; i >= 0; i--) {
    int64_t size = x->shape[i];
    if (folded[i])
      out->count = product(out->count, size);
    else
      out->outputs = product(out->outputs, size);
    if (size == 1) continue;
    if (rank > 0 && fold[rank - 1] == folded[i]) {
      shape[rank - 1] = product(shape[rank - 1], size);
    } else {
      shape[rank] = size, stride[rank] = next, fold[rank++] = folded[i];
    }
    next = product(next, size);
  }
  if (out->outputs == 0) return;
  out->trailing = rank > 0 && fold[0];
  if (rank > 0 && !fold[0]) out->width = shape[0];
  if (out->count == 0) {
    out->n = 0;
    push(&out->kept, out->outputs / out->width, 0);
    return;
  }
  int inner = rank > 0 && fold[0] ? 0 : rank > 1 ? 1 : -1; /* the innermost folded dimension: they alternate */
  if (inner >= 0) out->n = shape[inner], out->stride = stride[inner];
  for (int i = rank - 1; i >= 0; i--) {
    if (fold[i] && i != inner) push(&out->folded, shape[i], stride[i]);
    if (!fold[i] && i != 0) push(&out->kept, shape[i], stride[i]);
  }
}

int64_t ert_walk_at(const ert_walk *w, int64_t flat) {
  int64_t offset = 0;
  for (int i = w->rank - 1; i > 0; i--) {
    offset += flat % w->shape[i] * w->stride[i];
    flat /= w->shape[i];
  }
  return w->rank > 0 ? offset + flat * w->stride[0] : offset;
}

bool ert_walk_next(const ert_walk *w, int64_t *index, int64_t *offset) {
  for (int i = w->rank - 1; i >= 0; i--) {
    *offset += w->stride[i];
    if (++index[i] < w->shape[i]) return true;
    *offset -= w->stride[i] * w->shape[i];
    index[i] = 0;
  }
  return false;
}
