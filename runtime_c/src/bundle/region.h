/* Where a tensor's elements lie: a box of its root, or all of a tensor that is no view. */
#ifndef ERT_BUNDLE_REGION_H
#define ERT_BUNDLE_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "bundle/flatbuffer.h"

/* Borrows its extents from the verified bundle. */
typedef struct ert_region {
  const int64_t *whole;         /* shape of the root */
  const int64_t *begin, *shape; /* of the box */
  const uint32_t *halo;         /* NULL: none */
  uint64_t offset, bytes;       /* of the root */
  int64_t elements;             /* of the root */
  uint32_t index;               /* of the segment, or among the inputs or outputs */
  uint8_t place, dtype, layout, rank;
  bool empty; /* no elements */
} ert_region;

/* Whether it is all of a tensor that is no view. */
static inline bool ert_region_whole(const ert_region *r) { return r->shape == r->whole; }

/* The region of a verified tensor. */
ert_region ert_region_of(ert_vector tensors, uint32_t id);

/* Whether two regions have no byte in common: boxes are compared if their roots are alike (the same element type, layout,
 * shape and halo in the same place), else the roots' bytes. */
bool ert_regions_apart(const ert_region *a, const ert_region *b);

#endif
