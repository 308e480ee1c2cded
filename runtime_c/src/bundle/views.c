/* Views: boxes of other tensors, which hold whole blocks of the blocked layouts. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "bundle/program.h"

enum { LANES = 16 };

/* How a box may lie along a dimension. */
typedef enum grain {
  GRAIN_ANY,
  GRAIN_BLOCKS, /* whole blocks of lanes, the root's last one as it is */
  GRAIN_WHOLE,
} grain;

static grain grain_of(const ert_entry *t, uint32_t dimension) {
  switch (t->layout) {
    case ERT_LAYOUT_BLOCK16:
      return dimension == (t->rank == 1 ? 0 : 1) ? GRAIN_BLOCKS : GRAIN_ANY;
    case ERT_LAYOUT_WEIGHT16:
      return dimension == 0 ? GRAIN_ANY : dimension <= 2 ? GRAIN_BLOCKS : GRAIN_WHOLE;
    case ERT_LAYOUT_DEPTH16:
      return dimension == 0 ? GRAIN_BLOCKS : GRAIN_WHOLE;
    case ERT_LAYOUT_PLANES:
      return dimension == 1 ? GRAIN_ANY : GRAIN_WHOLE;
    default:
      return GRAIN_ANY;
  }
}

static edgert_status fail_box(const ert_program *p, uint32_t id, uint32_t dimension, int64_t n, int64_t first,
                              ert_text expected) {
  return ert_fail_tensor(p, id, ert_format("view along dimension %" PRIu32, dimension).s, expected.s,
                         ert_format("%" PRId64 " from %" PRId64, n, first).s);
}

static edgert_status verify_box(const ert_program *p, uint32_t id, const ert_entry *view, const ert_entry *root,
                                const int64_t *begin) {
  for (uint32_t i = 0; i < view->rank; i++) {
    int64_t first = begin[i], n = view->shape[i], limit = root->shape[i]; /* n and limit: from 0, at most 2^48 */
    grain g = grain_of(view, i);
    if (first < 0 || first > limit || n > limit - first)
      return fail_box(p, id, i, n, first, ert_format("within the %" PRId64 " of its root", limit));
    if (g == GRAIN_BLOCKS && (first % LANES != 0 || ((first + n) % LANES != 0 && first + n != limit)))
      return fail_box(p, id, i, n, first, ert_format("whole blocks of %d of %" PRId64, LANES, limit));
    if (g == GRAIN_WHOLE && n != limit)
      return fail_box(p, id, i, n, first, ert_format("all %" PRId64 " of its root", limit));
  }
  return EDGERT_OK;
}

/* A view of planes is a run of whole ones, with their halos. */
static edgert_status verify_planes(const ert_program *p, uint32_t id, const ert_entry *view, const ert_entry *root) {
  if (view->layout != ERT_LAYOUT_PLANES) return EDGERT_OK;
  if (root->rank < 2 || root->shape[0] != 1)
    return ert_fail_tensor(p, id, "root of a view of planes", "two dimensions or more, the first 1",
                           ert_format("rank %" PRIu32 " and %" PRId64, root->rank, root->rank ? root->shape[0] : 1).s);
  bool same =
      !view->halo == !root->halo && (!view->halo || memcmp(view->halo, root->halo, 4 * sizeof *view->halo) == 0);
  return same ? EDGERT_OK : ert_fail_tensor(p, id, "halo of a view", "that of its root", "another");
}

edgert_status ert_view_verify(const ert_program *p, uint32_t id, const ert_entry *view) {
  if (view->root >= p->tensors.count)
    return ert_fail_tensor(p, id, "root of a view", ert_format("-1 or a tensor below %" PRIu32, p->tensors.count).s,
                           ert_format("%" PRId32, (int32_t)view->root).s);
  ert_entry root;
  ERT_TRY(ert_entry_read(p, view->root, &root));
  if (root.root != ERT_NO_ROOT)
    return ert_fail_tensor(p, id, "root of a view", "a tensor that is no view itself",
                           ert_format("tensor %" PRIu32, view->root).s);
  if (view->dtype != root.dtype || view->layout != root.layout || view->rank != root.rank)
    return ert_fail_tensor(
        p, id, "type of a view",
        ert_format("%s %s of rank %" PRIu32, ert_layout_name(root.layout), ert_dtype_name(root.dtype), root.rank).s,
        ert_format("%s %s of rank %" PRIu32, ert_layout_name(view->layout), ert_dtype_name(view->dtype), view->rank).s);
  if (view->place != root.place || view->index != root.index || view->offset != root.offset)
    return ert_fail_tensor(
        p, id, "place, index and offset of a view",
        ert_format("%u, %" PRIu32 " and %" PRIu64 " as of its root", root.place, root.index, root.offset).s,
        ert_format("%u, %" PRIu32 " and %" PRIu64, view->place, view->index, view->offset).s);
  ERT_TRY(verify_planes(p, id, view, &root));
  ert_table table = ert_item(p->tensors, id);
  if (ert_u8(table, ERT_FIELD_TENSOR_EXTENT_AXIS, UINT8_MAX) != UINT8_MAX)
    return ert_fail_tensor(p, id, "extent of a view", "none", "an axis");
  ert_vector begin = ert_items(table, ERT_FIELD_TENSOR_BEGIN);
  if (begin.count != view->rank)
    return ert_fail_tensor(p, id, "begin of a view", ert_format("%" PRIu32 " entries", view->rank).s,
                           ert_format("%" PRIu32, begin.count).s);
  return verify_box(p, id, view, &root, begin.data);
}
