/* The loops of a resize: rows of the output made from rows of the input by the tables of its axes. */
#ifndef ERT_KERNELS_RESAMPLE_H
#define ERT_KERNELS_RESAMPLE_H

#include <stddef.h>

#include "kernels/resize_table.h"
#include "kernels/walk.h"

/* A tensor of `rank` axes whose entries are `inner` contiguous elements each. A row is the last axis, the last that is
 * resized: those behind it are `inner`, or where they have gaps come before it. */
typedef struct ert_resample {
  ert_resize_axis axes[ERT_WALK_RANK];
  int64_t from[ERT_WALK_RANK], to[ERT_WALK_RANK]; /* strides of the input and of the output, elements */
  int rank;
  int64_t inner;
  ert_walk rows;   /* of the output: the axes before the last, each a dimension */
  size_t size;     /* bytes of an element */
  uint64_t filler; /* extrapolation value: the first `size` bytes */
  int doubled;     /* nearest: of how many axes, the last ones, output o is input o / 2, for all o; at most 2 */
} ert_resample;

/* Elements of scratch that mixing needs. */
static inline int64_t ert_resample_scratch(const ert_resample *r) { return r->axes[r->rank - 1].in * r->inner; }

/* Rows [begin, end): picks one input for each output. */
void ert_resample_nearest(const ert_resample *r, void *y, const void *x, int64_t begin, int64_t end);

/* Rows [begin, end) of float32: weighted sums of inputs. */
void ert_resample_mix(const ert_resample *r, float *y, const float *x, int64_t begin, int64_t end, float *scratch);

#endif
