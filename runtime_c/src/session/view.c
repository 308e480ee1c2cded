/* A view: a box of another tensor, its root, in whatever layout. */
#include "session/view.h"

#include "base/dtype.h"

enum { LANES = 16 };

/* The dimension whose elements lie side by side in blocks of 16; past all dimensions where there are no blocks. */
static uint32_t lane_axis(const ert_tensor *t) {
  switch (t->layout) {
    case ERT_LAYOUT_PLANAR:
    case ERT_LAYOUT_PLANES:
      return ERT_MAX_RANK;
    case ERT_LAYOUT_DEPTH16:
      return 0;
    default:
      return t->rank > 1 ? 1 : 0;
  }
}

static int64_t blocks(int64_t n) { return n / LANES + (n % LANES != 0); }

/* Elements between neighbours along dimension i of a tensor of `shape`, laid out like t; along the lane axis a sixteenth
 * of what lies between blocks. (Along the kernel of packed weights only an upper bound; views are whole there.) */
static int64_t pitch(const ert_tensor *t, const int64_t *shape, uint32_t i) {
  const uint32_t lanes = lane_axis(t);
  int64_t product = i > lanes ? LANES : 1;
  for (uint32_t d = i + 1; d < t->rank; d++)
    product *= d == lanes ? blocks(shape[d]) * LANES : ert_planes_extent(shape, t->halo, d);
  return product;
}

size_t ert_view_at(const ert_tensor *view, const int64_t *begin) {
  int64_t at = 0;
  if (view->elements == 0) return 0; /* its begin may be far behind the root */
  for (uint32_t i = 0; i < view->rank; i++) at += begin[i] * pitch(view, view->whole, i);
  return (size_t)at * ert_dtype_bytes(view->dtype);
}

bool ert_view_compact(const ert_tensor *view) {
  if (view->elements == 0) return true;
  for (uint32_t i = 0; i < view->rank; i++) {
    int64_t extent = i == lane_axis(view) ? blocks(view->shape[i]) : view->shape[i];
    if (extent > 1 && pitch(view, view->whole, i) != pitch(view, view->shape, i)) return false;
  }
  return true;
}
