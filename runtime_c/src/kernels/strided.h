/* A strided copy: a dense destination filled from any affine walk over a source, planned once and run in pieces. */
#ifndef ERT_KERNELS_STRIDED_H
#define ERT_KERNELS_STRIDED_H

#include "base/kernel.h"

enum { ERT_STRIDED_MAX_RANK = 16 };

typedef enum ert_strided_kind {
  ERT_STRIDED_RUN,       /* one contiguous run; a unit is ERT_STRIDED_CHUNK bytes */
  ERT_STRIDED_ROWS,      /* walks the last dimension; a unit is one row of it */
  ERT_STRIDED_TRANSPOSE, /* dimension `across` is contiguous in the source; a unit is `strip` rows of it */
} ert_strided_kind;

enum { ERT_STRIDED_CHUNK = 65536 };

/* Destination element (i0, i1, ...) is source element `offset + sum i * strides`. Dimensions are already merged. */
typedef struct ert_strided {
  int64_t shape[ERT_STRIDED_MAX_RANK];
  int64_t strides[ERT_STRIDED_MAX_RANK];
  int64_t offset;
  int64_t elements;
  int64_t units; /* independent pieces of the destination */
  size_t size;   /* bytes of an element */
  ert_strided_kind kind;
  int rank;
  int across;    /* TRANSPOSE: the dimension of source stride 1 */
  int64_t strip; /* TRANSPOSE: rows of the destination made together */
} ert_strided;

/* Plans the walk; false if an index can leave the `source` elements. `elements` is the product of `shape`. */
bool ert_strided_plan(int rank, const int64_t *shape, const int64_t *strides, int64_t offset, int64_t elements,
                      int64_t source, size_t size, ert_strided *out);

/* Copies the units [begin, end). */
void ert_strided_run(const ert_strided *plan, void *dst, const void *src, int64_t begin, int64_t end);

#endif
