/* The geometry of a reduction over any axes: merged dimensions, cut into those kept and those folded. */
#ifndef ERT_KERNELS_REDUCTION_H
#define ERT_KERNELS_REDUCTION_H

#include "base/kernel.h"

typedef struct ert_walk {
  int rank;
  int64_t shape[ERT_MAX_RANK], stride[ERT_MAX_RANK];
} ert_walk;

/* Trailing: each of `outputs` folds runs of n contiguous elements. Otherwise `width` contiguous columns are folded
 * together, n rows `stride` apart. `folded` walks over the starts of runs or of rows, from where `kept` leads. */
typedef struct ert_reduction {
  ert_walk kept;   /* without the columns */
  ert_walk folded; /* without the n elements or rows */
  int64_t n, stride, width;
  int64_t count;   /* elements that make one output */
  int64_t outputs; /* rows kept times width */
  bool trailing;
} ert_reduction;

/* The attribute `axes`: distinct and sorted dimensions of a tensor of this rank. */
edgert_status ert_axes(const ert_prepare *p, int rank, bool *chosen);

void ert_reduction_plan(const ert_tensor *x, const bool *folded, ert_reduction *out);

/* The element offset of a flat index. */
int64_t ert_walk_at(const ert_walk *w, int64_t flat);

/* Moves index and offset one on; false, back at the start, after the last. */
bool ert_walk_next(const ert_walk *w, int64_t *index, int64_t *offset);

#endif
