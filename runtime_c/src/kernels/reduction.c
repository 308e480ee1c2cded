/* Planning reductions, and reading what they fold. */
#include "kernels/reduction.h"

#include <string.h>

#include "kernels/tensor.h"

edgert_status ert_axes(const ert_prepare *p, int rank, bool chosen[ERT_WALK_RANK]) {
  const ert_attribute *found = ert_attribute_find(p, "axes");
  const int64_t *axes;
  uint32_t n = found ? found->n_ints : 1;
  if (n > ERT_MAX_RANK) return ert_reject(p, "attribute 'axes'", "at most 8 dimensions", "%u", n);
  for (int i = 0; i < ERT_WALK_RANK; i++) chosen[i] = false;
  ERT_TRY(ert_ints(p, "axes", n, 0, rank - 1, &axes));
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0 && axes[i] <= axes[i - 1]) return ert_reject(p, "attribute 'axes'", "ascending dimensions", "others");
    chosen[axes[i]] = true;
  }
  return EDGERT_OK;
}

void ert_reduction_plan(const ert_stored *x, const int64_t *y_stride, const bool *folded, int contiguous,
                        ert_reduction *out) {
  *out = (ert_reduction){.run = 1, .kept = {.operands = 2}, .folded = {.operands = 2}};
  out->trailing = x->rank > 0 && folded[x->rank - 1];
  for (int i = 0; i < x->rank; i++)
    ert_walk_push(folded[i] ? &out->folded : &out->kept, x->shape[i], (const int64_t[]){x->stride[i], y_stride[i]});
  int inner = x->rank - 1;
  while (inner >= 0 && !folded[inner]) inner--;
  for (; inner >= 0 && folded[inner]; inner--) out->run *= x->shape[inner];
  ert_walk_merge(&out->kept, out->trailing ? 0 : contiguous);
  ert_walk_merge(&out->folded, out->trailing ? contiguous : 0);
}

const float *ert_reduction_gather(const ert_walk *folded, ert_cursor *c, const float *x, int64_t at, int64_t n,
                                  float *scratch) {
  if (at == 0) ert_walk_start(folded, c);
  const float *row = x + c->offset[0];
  if (n <= ert_walk_left(folded, c)) {
    ert_walk_advance(folded, c, n);
    return row;
  }
  for (int64_t done = 0, part; done < n; done += part) {
    part = ert_min64(ert_walk_left(folded, c), n - done);
    memcpy(scratch + done, x + c->offset[0], (size_t)part * sizeof *x);
    ert_walk_advance(folded, c, part);
  }
  return scratch;
}
