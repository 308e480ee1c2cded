/* From operands that broadcast to a walk over them. */
#include "kernels/broadcast.h"

static edgert_status check_blocks(const ert_prepare *p, const ert_tensor *t, const ert_tensor *y) {
  if (t->layout == ERT_LAYOUT_PLANAR && t->elements == 1) return EDGERT_OK;
  ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_BLOCK16));
  int channel = y->rank == 1 ? 0 : 1;
  if (t->rank != y->rank || t->rank == 0 || t->shape[channel] != y->shape[channel])
    return ert_reject(p, "operand in blocks of 16", "the rank and channels of the output", "rank %d", t->rank);
  return EDGERT_OK;
}

edgert_status ert_broadcast_plan(const ert_prepare *p, int operands, ert_walk *out) {
  const ert_tensor *y = p->step->out[0];
  const bool blocks = y->layout == ERT_LAYOUT_BLOCK16;
  if (!blocks) ERT_TRY(ert_expect_planar(p));
  const ert_stored all = ert_stored_of(y);
  int64_t widest[ERT_WALK_RANK];
  *out = (ert_walk){.rank = all.rank, .operands = operands + 1};
  for (int i = 0; i < all.rank; i++) {
    out->shape[i] = all.shape[i];
    out->stride[operands][i] = all.stride[i];
    widest[i] = 1;
  }
  for (int k = 0; k < operands; k++) {
    const ert_tensor *t = p->step->in[k];
    if (blocks) ERT_TRY(check_blocks(p, t, y));
    if (t->rank > y->rank) return ert_reject(p, "rank of an operand", "at most that of the output", "%d", t->rank);
    const ert_stored own = blocks && t->layout == ERT_LAYOUT_PLANAR ? (ert_stored){0} : ert_stored_of(t);
    const int lead = all.rank - own.rank;
    for (int i = lead; i < all.rank; i++) {
      const int64_t size = own.shape[i - lead];
      if (size != 1 && size != all.shape[i])
        return ert_reject(p, "shape of an operand", "1 or the output's size in every dimension", "%lld instead of %lld",
                          (long long)size, (long long)all.shape[i]);
      if (size == 1) continue;
      widest[i] = size;
      out->stride[k][i] = own.stride[i - lead];
    }
  }
  for (int i = 0; i < all.rank; i++)
    if (widest[i] != all.shape[i])
      return ert_reject(p, "shape of the output", "that of its operands broadcast", "%lld in dimension %d",
                        (long long)all.shape[i], i);
  ert_walk_merge(out, out->operands);
  return EDGERT_OK;
}

int ert_broadcast_repeated(const ert_walk *w) {
  if (w->elements == 0 || w->rank < 2) return -1;
  const int row = w->rank - 1, outer = w->rank - 2;
  const int64_t n = w->shape[row], *to = w->stride[2];
  if (to[row] != 1 || to[outer] != n) return -1;
  for (int k = 0; k < 2; k++) {
    const int64_t *own = w->stride[k], *other = w->stride[1 - k];
    if (own[row] == 1 && own[outer] == 0 && other[row] == 1 && other[outer] == n) return k;
  }
  return -1;
}

void ert_broadcast_join(ert_walk *w, int repeated, int64_t stride) {
  const int outer = w->rank - 2;
  w->shape[outer] *= w->shape[outer + 1];
  w->stride[repeated][outer] = stride;
  w->stride[1 - repeated][outer] = w->stride[2][outer] = 1;
  w->rank--;
}
