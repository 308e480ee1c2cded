/* A tensor seen along one axis, or a run of neighbouring ones: [outer, n, inner]. */
#ifndef ERT_KERNELS_AXIS_H
#define ERT_KERNELS_AXIS_H

#include "kernels/tensor.h"

enum { ERT_AXIS_TILE = 256 }; /* columns of a unit of work */

typedef struct ert_axis {
  int64_t outer, n, inner;
  int64_t tiles; /* of the inner columns */
  int64_t units; /* outer * tiles */
} ert_axis;

/* The axes [first, last); sets step->tasks for `cost` element moves an element. No units if the tensor is empty. */
static inline void ert_axis_plan(ert_prepare *p, const ert_tensor *x, int first, int last, int64_t cost,
                                 ert_axis *out) {
  *out = (ert_axis){0};
  if (x->elements == 0) return;
  out->outer = ert_extent(x, 0, first);
  out->n = ert_extent(x, first, last);
  out->inner = ert_extent(x, last, x->rank);
  out->tiles = (out->inner + ERT_AXIS_TILE - 1) / ERT_AXIS_TILE;
  out->units = out->outer * out->tiles;
  int64_t elements = ert_min64(out->n, INT32_MAX) * ert_min64(out->inner, ERT_AXIS_TILE);
  p->step->tasks = ert_cut(out->units, elements * cost, p->workers);
}

/* The columns of a unit: their number, and the flat element of the first one. */
static inline int64_t ert_axis_unit(const ert_axis *a, int64_t unit, int64_t *first) {
  const int64_t column = unit % a->tiles * ERT_AXIS_TILE;
  *first = unit / a->tiles * a->n * a->inner + column;
  return ert_min64(a->inner - column, ERT_AXIS_TILE);
}

#endif
