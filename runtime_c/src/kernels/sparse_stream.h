/* The stream of non-zeros of a sparse convolution: proving it, and where in it the filters are. */
#ifndef ERT_KERNELS_SPARSE_STREAM_H
#define ERT_KERNELS_SPARSE_STREAM_H

#include "kernels/sparse_geometry.h"
#include "kernels/weights.h"

/* Operands of a step, by their places. */
enum {
  ERT_SPARSE_X,
  ERT_SPARSE_VALUES,
  ERT_SPARSE_INDICES,
  ERT_SPARSE_COUNTS,
  ERT_SPARSE_STARTS,
  ERT_SPARSE_BIAS,
  ERT_SPARSE_RESIDUAL,
  ERT_SPARSE_OPERANDS
};

/* An entry is a place at which `together` filters have weights, or one of four channels of a filter: of `each` values. */
typedef struct ert_sparse_stream {
  ert_weights weights; /* how values are stored */
  const uint8_t *indices, *counts;
  const int32_t *starts;
  int64_t counts_tile, counts_row, starts_tile; /* elements between neighbours */
  int64_t filters, together, each, groups;
  bool sorted;     /* rows of every ERT_SPARSE_SORTED filters of a group */
  int64_t unit;    /* filters that are not cut: those, or 16 */
  int64_t longest; /* entries of such in a tile, at most */
} ert_sparse_stream;

/* Proves types and shapes of the stream and the bias; and, unless the output is empty, that the entries of a tile's filters
 * follow one another within it, every 16 filters beginning where `starts` says, and that sorted rows are of each filter
 * once. */
edgert_status ert_sparse_stream_read(const ert_prepare *p, const ert_sparse_geometry *g, ert_sparse_stream *out);

/* Proves of a stream that was read that indices are of channels of their tile, and that gaps end within theirs. */
edgert_status ert_sparse_stream_prove(const ert_prepare *p, const ert_sparse_geometry *g, const ert_sparse_stream *s);

/* Where in a tile the entries of the first filter of a unit begin, or those of the last one end. */
int64_t ert_sparse_position(const ert_sparse_stream *s, int64_t tile, int64_t filter);

#endif
