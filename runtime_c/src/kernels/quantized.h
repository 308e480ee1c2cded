/* What convolutions and matrix products of bytes share: their constants, and how sums become bytes. */
#ifndef ERT_KERNELS_QUANTIZED_H
#define ERT_KERNELS_QUANTIZED_H

#include "kernels/simd/i8.h"

/* Proves inputs 1 to 3: weights i32 (WEIGHT16) [groups,filters,quads], bias i32 and scale f32 (BLOCK16) [groups,filters]. */
edgert_status ert_quantized_expect(const ert_prepare *p, int64_t groups, int64_t filters, int64_t quads);

/* Reads the attributes y_zero, lo, hi, and sum_scales and sum_levels: with a residual, or of levels that are scaled twice. */
edgert_status ert_quantized_finish(const ert_prepare *p, bool residual, ert_i8_finish *out);

#endif
