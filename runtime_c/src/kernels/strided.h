/* A strided copy: a tensor filled from any affine walk over another, planned once and run in pieces. */
#ifndef ERT_KERNELS_STRIDED_H
#define ERT_KERNELS_STRIDED_H

#include "base/kernel.h"

enum {
  ERT_STRIDED_DIMENSIONS = 16,                                        /* of a walk, as given */
  ERT_STRIDED_RANK = ERT_STRIDED_DIMENSIONS + 2 * (ERT_MAX_RANK - 1), /* and cut where rows of the tensors end */
};

typedef enum ert_strided_kind {
  ERT_STRIDED_RUN,       /* one contiguous run; a unit is ERT_STRIDED_CHUNK bytes */
  ERT_STRIDED_ROWS,      /* walks the last dimension; a unit is one row of it */
  ERT_STRIDED_TRANSPOSE, /* dimension `across` is contiguous in the source; a unit is `strip` rows of it */
} ert_strided_kind;

enum { ERT_STRIDED_CHUNK = 65536 };

/* Destination element sum i * to[i] is source element offset + sum i * from[i]. Dimensions are already merged. */
typedef struct ert_strided {
  int64_t shape[ERT_STRIDED_RANK];
  int64_t from[ERT_STRIDED_RANK], to[ERT_STRIDED_RANK];
  int64_t offset;
  int64_t elements;
  int64_t units; /* independent pieces of the destination */
  size_t size;   /* bytes of an element, which may be a run of up to 16 bytes */
  ert_strided_kind kind;
  int rank;
  int across;    /* TRANSPOSE: the dimension of source stride 1 */
  int64_t strip; /* TRANSPOSE: rows of the destination made together */
} ert_strided;

/* A walk over the elements of a planar tensor, numbered in row-major order of its shape: what a copy is given. */
typedef struct ert_strided_walk {
  int rank; /* at most ERT_STRIDED_DIMENSIONS */
  const int64_t *shape, *strides;
  int64_t offset;
} ert_strided_walk;

/* Plans the copy of a walk over x, which visits y->elements elements, to y. Proves that it stays inside x, and that its
 * dimensions can be cut where the rows of x and y end, if those are views. */
edgert_status ert_strided_plan(const ert_prepare *p, const ert_tensor *x, const ert_strided_walk *walk,
                               const ert_tensor *y, ert_strided *out);

/* Copies the units [begin, end). */
void ert_strided_run(const ert_strided *plan, void *dst, const void *src, int64_t begin, int64_t end);

#endif
