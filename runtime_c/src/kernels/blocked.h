/* Where activations of either layout lie, views included, and moving their channels to and from blocks of 16 in scratch. */
#ifndef ERT_KERNELS_BLOCKED_H
#define ERT_KERNELS_BLOCKED_H

#include "base/kernel.h"

/* Elements between neighbours of a tensor [N,C,depth,height,width], PLANAR or BLOCK16, that may lack leading spatial
 * dimensions. */
typedef struct ert_strides {
  int64_t image;
  int64_t channel; /* between blocks of 16 channels if blocked */
  int64_t plane, row;
  int64_t column; /* 1, or 16 if blocked */
  bool blocked;
} ert_strides;

/* Proves that a tensor is PLANAR or BLOCK16. */
edgert_status ert_expect_activations(const ert_prepare *p, const ert_tensor *t);

/* Proves that a view of packed weights takes its dimensions from `first` on, the kernel, whole. */
edgert_status ert_expect_whole(const ert_prepare *p, const ert_tensor *w, int first);

/* Of a tensor of rank 3 to 5. */
ert_strides ert_strides_of(const ert_tensor *t);

/* Of a step's first input, its output, and the input number `residual`; of the output again if there is no such input. */
void ert_strides_of_step(const ert_step *step, uint32_t residual, ert_strides *x, ert_strides *y, ert_strides *added);

/* Where position (depth, row, column) of an image lies, in its first channel or block. */
static inline int64_t ert_position(const ert_strides *s, int64_t image, int64_t depth, int64_t row, int64_t column) {
  return image * s->image + depth * s->plane + row * s->row + column * s->column;
}

/* Whether all positions of images of this spatial extent follow one another. */
bool ert_positions_joined(const ert_strides *s, const int64_t extent[3]);

/* Scratch [ceil(channels/16)][positions][lanes], consecutive blocks `pitch` floats apart. With `lanes` < 16 there is one block. */
typedef struct ert_blocks {
  float *data;
  int64_t pitch;
  int64_t lanes;
} ert_blocks;

/* Channels [first, first + count) of a box of `rows` by `columns` positions, the first one (of channel 0) at x, to the first
 * positions of the blocks. */
void ert_gather_channels(const float *x, const ert_strides *s, int64_t first, int64_t count, int64_t rows,
                         int64_t columns, ert_blocks to);

/* The inverse: channels of blocks with 16 lanes to their place. Other lanes of y are not touched. */
void ert_scatter_channels(ert_blocks from, float *y, const ert_strides *s, int64_t first, int64_t count, int64_t rows,
                          int64_t columns);

#endif
