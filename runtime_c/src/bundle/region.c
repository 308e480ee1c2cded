/* Regions: boxes and byte ranges compared. */
#include "bundle/region.h"

#include <string.h>

#include "base/dtype.h"
#include "bundle/program.h"

ert_region ert_region_of(ert_vector tensors, uint32_t id) {
  static const int64_t origin[ERT_MAX_RANK];
  ert_table table = ert_item(tensors, id);
  uint32_t root = ert_u32(table, ERT_FIELD_TENSOR_ROOT, ERT_NO_ROOT);
  ert_vector shape = ert_items(table, ERT_FIELD_TENSOR_SHAPE), begin = ert_items(table, ERT_FIELD_TENSOR_BEGIN);
  ert_vector whole = root == ERT_NO_ROOT ? shape : ert_items(ert_item(tensors, root), ERT_FIELD_TENSOR_SHAPE);
  ert_vector halo = ert_items(table, ERT_FIELD_TENSOR_HALO);
  ert_region r = {
      .whole = whole.data,
      .begin = root == ERT_NO_ROOT ? origin : begin.data,
      .shape = shape.data,
      .halo = halo.count ? halo.data : NULL,
      .offset = ert_u64(table, ERT_FIELD_TENSOR_OFFSET, 0),
      .index = ert_u32(table, ERT_FIELD_TENSOR_INDEX, 0),
      .place = ert_u8(table, ERT_FIELD_TENSOR_PLACE, 0),
      .dtype = ert_u8(table, ERT_FIELD_TENSOR_DTYPE, 0),
      .layout = ert_u8(table, ERT_FIELD_TENSOR_LAYOUT, 0),
      .rank = (uint8_t)shape.count,
  };
  size_t bytes;
  (void)ert_tensor_size(r.dtype, r.layout, r.rank, r.whole, r.halo, &r.elements, &bytes); /* succeeded in program.c */
  r.bytes = bytes;
  if (r.place == ERT_PLACE_ARENA || r.place == ERT_PLACE_DEVICE) r.index = 0;
  for (uint32_t i = 0; i < r.rank; i++) r.empty |= r.shape[i] == 0;
  return r;
}

static bool halos_alike(const ert_region *a, const ert_region *b) {
  if (!a->halo || !b->halo) return !a->halo == !b->halo;
  return memcmp(a->halo, b->halo, 4 * sizeof *a->halo) == 0;
}

/* Whether the roots have the same elements in the same bytes. */
static bool roots_alike(const ert_region *a, const ert_region *b) {
  return a->offset == b->offset && a->dtype == b->dtype && a->layout == b->layout && a->rank == b->rank &&
         halos_alike(a, b) && memcmp(a->whole, b->whole, a->rank * sizeof *a->whole) == 0;
}

bool ert_regions_apart(const ert_region *a, const ert_region *b) {
  if (a->empty || b->empty || a->place != b->place || a->index != b->index) return true;
  if (a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes) return true;
  if (!roots_alike(a, b)) return false;
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->begin[i] >= b->begin[i] + b->shape[i] || b->begin[i] >= a->begin[i] + a->shape[i]) return true;
  return false;
}
