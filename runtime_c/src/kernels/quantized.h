/* What convolutions and matrix products of bytes share: their constants, and what becomes of sums. */
#ifndef ERT_KERNELS_QUANTIZED_H
#define ERT_KERNELS_QUANTIZED_H

#include "kernels/simd/i8.h"

/* Proves input 1: weights i32 (WEIGHT16) [groups,filters,quads]. */
edgert_status ert_quantized_weights(const ert_prepare *p, int64_t groups, int64_t filters, int64_t quads);

/* Proves inputs 2 and 3, those of output channels of this shape (BLOCK16): bias i32 and scale f32. */
edgert_status ert_quantized_channels(const ert_prepare *p, uint32_t rank, const int64_t *channels);

/* Reads the attributes y_zero, lo, hi, and sum_scales and sum_levels: with a residual, or of levels that are scaled twice. */
edgert_status ert_quantized_finish(const ert_prepare *p, bool residual, ert_i8_finish *out);

/* The same of products whose levels are known only when a step runs. Inputs: 1 weights, 2 the sum of each output channel's
 * weights, 3 the zero point of x; for results in f32 also 4 the scale of x, 5 those of the weights, and 6 an offset. */
typedef struct ert_integer_constants {
  const int32_t *bias;
  const float *scale, *offset; /* for results in f32 */
} ert_integer_constants;

/* Proves inputs 2 to 6, those of output channels of this shape (BLOCK16), and the type of the output; reads the activation. */
edgert_status ert_integer_expect(const ert_prepare *p, uint32_t rank, const int64_t *channels, ert_i8_finish *out);

/* Scratch that the constants of so many blocks of 16 channels take. */
static inline int64_t ert_integer_scratch(int64_t blocks) { return blocks * 16 * 8; }

/* The constants of `blocks` blocks from this one of this group on; of channels without groups each block is one. */
ert_integer_constants ert_integer_constants_at(const ert_step *step, int64_t group, int64_t block, int64_t blocks,
                                               void *scratch);

#endif
