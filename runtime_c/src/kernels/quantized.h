/* What convolutions and matrix products of bytes share: their constants, and what becomes of sums. */
#ifndef ERT_KERNELS_QUANTIZED_H
#define ERT_KERNELS_QUANTIZED_H

#include "kernels/conv_geometry.h"
#include "kernels/simd/i8.h"

/* Proves that the input and the output of a convolution are bytes, in blocks of 16 channels (the input may be planar, unless
 * `blocked`), and reads its geometry; extents of the kernel, an attribute, are `most` at most. */
edgert_status ert_quantized_geometry(const ert_prepare *p, bool blocked, int64_t most, ert_conv_geometry *out);

/* Proves input 1: weights i32 (WEIGHT16) [groups,filters,quads]. */
edgert_status ert_quantized_weights(const ert_prepare *p, int64_t groups, int64_t filters, int64_t quads);

/* Proves input number `bias` and the next, those of output channels of this shape (BLOCK16): bias i32 and scale f32; the one
 * behind them, a residual, if there is one; and the type of the output. Reads the attributes y_zero, lo, hi, and sum_scales and sum_levels: with a
 * residual, or of levels that are scaled twice. */
edgert_status ert_quantized_expect(const ert_prepare *p, uint32_t bias, uint32_t rank, const int64_t *channels,
                                   ert_i8_finish *out);

/* The same of products whose levels are known only when a step runs. Inputs: 1 weights, 2 the sum of each output channel's
 * weights, 3 the zero point of x; for results in f32 also 4 the scale of x, 5 those of the weights, and 6 an offset. Proves
 * inputs 2 to 6, those of output channels of this shape (BLOCK16), and the type of the output; reads the activation. */
edgert_status ert_integer_expect(const ert_prepare *p, uint32_t rank, const int64_t *channels, ert_i8_finish *out);

/* What is added to the sums of each output channel, and what they are scaled by and, for results in f32, offset. */
typedef struct ert_channels {
  const int32_t *bias;
  const float *scale, *offset;
} ert_channels;

/* Scratch that those of so many blocks of 16 channels take; `integer`: of levels known only when a step runs. */
static inline int64_t ert_channels_scratch(bool integer, int64_t blocks) { return integer ? blocks * 16 * 8 : 0; }

/* `blocks` blocks from this one of this group on; of channels without groups each block is one. */
ert_channels ert_channels_at(const ert_step *step, bool integer, int64_t group, int64_t block, int64_t blocks,
                             void *scratch);

/* Input 4 of a convolution of levels that are attributes, or NULL. */
static inline const ert_tensor *ert_quantized_residual(const ert_step *step, bool integer) {
  return !integer && step->n_in > 4 ? step->in[4] : NULL;
}

#endif
