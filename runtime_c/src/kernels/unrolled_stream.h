/* The stream of an unrolled convolution: which channels and values each group of filters has in each tile of channels. */
#ifndef ERT_KERNELS_UNROLLED_STREAM_H
#define ERT_KERNELS_UNROLLED_STREAM_H

#include "kernels/unrolled_geometry.h"
#include "kernels/weights.h"

/* Operands of a step, by their places. */
enum {
  ERT_UNROLLED_X,
  ERT_UNROLLED_VALUES,
  ERT_UNROLLED_OWNERS,
  ERT_UNROLLED_BATCHES,
  ERT_UNROLLED_GROUPS,
  ERT_UNROLLED_BIAS,
  ERT_UNROLLED_RESIDUAL,
  ERT_UNROLLED_OPERANDS
};

/* What a group of filters has in a tile, as `groups` has it. */
typedef struct ert_unrolled_group {
  int32_t filters, batch, value, n_values;
  const int32_t *tap_batches; /* of each tap */
} ert_unrolled_group;

typedef struct ert_unrolled_stream {
  ert_weights weights; /* how values are stored */
  const uint32_t *batches;
  const uint8_t *owners;
  const int32_t *groups;
  int64_t groups_tile, groups_row; /* elements between neighbours */
  int64_t each;                    /* groups of filters of a group of the convolution */
  int64_t n_batches, n_values;     /* of a group in a tile, at most */
} ert_unrolled_stream;

/* Proves types and shapes of the stream, whose values are of this type or floats of 16 bits instead of 32; and, unless the output is empty, that groups follow one another,
 * tile by tile, and that their filters are those of the convolution, in each tile the same. */
edgert_status ert_unrolled_stream_read(const ert_prepare *p, const ert_unrolled_geometry *g, edgert_dtype values,
                                       ert_unrolled_stream *out);

/* Proves of a stream that was read that the channels of groups are those of their tile, and that their values belong to
 * filters of theirs. */
edgert_status ert_unrolled_stream_prove(const ert_prepare *p, const ert_unrolled_geometry *g,
                                        const ert_unrolled_stream *s);

/* Group number `group`, of all groups of the convolution, in a tile. */
ert_unrolled_group ert_unrolled_group_at(const ert_unrolled_stream *s, int64_t tile, int64_t group);

#endif
