/* Moving channels between activations of either layout and blocks of 16 channels in scratch. */
#ifndef ERT_KERNELS_BLOCKED_H
#define ERT_KERNELS_BLOCKED_H

#include "base/kernel.h"

/* One image [C, positions] of an activation tensor, PLANAR or BLOCK16. */
typedef struct ert_image {
  float *data;
  int64_t positions;
  bool blocked;
} ert_image;

/* Proves that a tensor is PLANAR or BLOCK16. */
edgert_status ert_expect_activations(const ert_prepare *p, const ert_tensor *t);

/* Image `index` of a tensor [N, channels, positions]. */
static inline ert_image ert_image_of(const ert_tensor *t, int64_t index, int64_t channels, int64_t positions) {
  const bool blocked = t->layout == ERT_LAYOUT_BLOCK16;
  const int64_t stored = blocked ? (channels + 15) / 16 * 16 : channels;
  return (ert_image){(float *)t->data + index * stored * positions, positions, blocked};
}

/* Scratch [ceil(channels/16)][positions][lanes], consecutive blocks `pitch` floats apart. With `lanes` < 16 there is one block. */
typedef struct ert_blocks {
  float *data;
  int64_t pitch;
  int64_t lanes;
} ert_blocks;

/* Channels [first, first + count) of positions [at, at + n) of an image, to the first n positions of the blocks. */
void ert_gather_channels(const ert_image *x, int64_t first, int64_t count, int64_t at, int64_t n, ert_blocks to);

/* The inverse: channels of blocks with 16 lanes to their place in an image. Other lanes of the image are not touched. */
void ert_scatter_channels(ert_blocks from, const ert_image *y, int64_t first, int64_t count, int64_t at, int64_t n);

#endif
