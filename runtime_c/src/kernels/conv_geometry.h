/* The geometry of a convolution, proven from a step's operands and attributes and lifted to three spatial dimensions. */
#ifndef ERT_KERNELS_CONV_GEOMETRY_H
#define ERT_KERNELS_CONV_GEOMETRY_H

#include "kernels/tensor.h"

/* Spatial dimensions are depth, height, width; those a step lacks have extent 1, stride 1 and no padding. */
typedef struct ert_conv_geometry {
  int64_t batch, groups;
  int64_t channels;                                                 /* input channels of a group */
  int64_t filters;                                                  /* output channels of a group */
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3]; /* pad: before the first position */
  int64_t reach[3]; /* (kernel - 1) * dilation: how far the last tap lies from the first; 0 if there are no taps */
} ert_conv_geometry;

/* Reads the attributes strides, pads, dilations and group against x [N,C,spatial], y [N,K,spatial] and a kernel of `kernel`
 * spatial extents; proves dtypes, ranks and y's shape. `transposed`: x and y change roles in the extents (conv_transpose),
 * with the attribute output_padding. Leaves layouts to the caller. */
edgert_status ert_conv_geometry_read(const ert_prepare *p, const ert_tensor *x, const ert_tensor *y,
                                     const int64_t *kernel, bool transposed, ert_conv_geometry *out);

/* The same whatever the element types. */
edgert_status ert_conv_geometry_of(const ert_prepare *p, const ert_tensor *x, const ert_tensor *y,
                                   const int64_t *kernel, bool transposed, ert_conv_geometry *out);

/* Refuses strides, pads and dilations that make a task gather `floats` inputs, zeros included, out of all proportion to the
 * inputs there are and to the `products` made of them: else a few bytes could ask for any amount of memory and time. */
edgert_status ert_conv_expect_worth(const ert_prepare *p, int64_t floats, double products);

/* Product of three extents. */
static inline int64_t ert_volume(const int64_t extent[3]) { return extent[0] * extent[1] * extent[2]; }

/* What a task of a depthwise convolution computes: a band of rows of one depth, of a block of channels of an image. */
typedef struct ert_conv_band {
  int64_t image, block, depth, row, rows;
} ert_conv_band;

/* Number `i` of batch * blocks * depths * bands, the bands of a depth following one another. */
ert_conv_band ert_conv_band_at(const ert_conv_geometry *g, int64_t blocks, int64_t bands, int64_t i);

/* Taps of a dimension that are this many apart begin at the same place modulo the stride: they are of one phase. */
static inline int64_t ert_tap_period(const ert_conv_geometry *g, int d) {
  return g->stride[d] / ert_common_divisor(g->stride[d], g->dilation[d]);
}

/* How many phases the taps of a dimension have: those of the first taps. */
static inline int64_t ert_tap_phases(const ert_conv_geometry *g, int d) {
  return ert_min64(g->kernel[d], ert_tap_period(g, d));
}

/* Where tap k of dimension d reads for output 0, in positions of its phase, and which one that is. */
static inline int64_t ert_tap_at(const ert_conv_geometry *g, int d, int64_t k, int64_t *phase) {
  const int64_t at = k * g->dilation[d] - g->pad[d], on = at >= 0 ? at / g->stride[d] : -((-at - 1) / g->stride[d] + 1);
  *phase = at - on * g->stride[d];
  return on;
}

/* Of the `n` taps `dilation` apart starting at `first`, those that lie in [0, extent): [*begin, *end). */
static inline void ert_taps_inside(int64_t first, int64_t dilation, int64_t n, int64_t extent, int64_t *begin,
                                   int64_t *end) {
  *begin = first >= 0 ? 0 : (dilation - 1 - first) / dilation;
  *end = first >= extent ? 0 : (extent - first + dilation - 1) / dilation;
  if (*end > n) *end = n;
  if (*begin > *end) *begin = *end;
}

/* Neighbouring outputs of a dimension, [begin, end), and the taps that reach inputs for any of them, [first, last): the
 * others see padding only. */
typedef struct ert_conv_part {
  int64_t begin, end, first, last;
} ert_conv_part;

/* All outputs and taps. */
static inline ert_conv_part ert_conv_whole(const ert_conv_geometry *g, int d) {
  return (ert_conv_part){0, g->out[d], 0, g->kernel[d]};
}

enum { ERT_CONV_PARTS = 7 };

/* Cuts the outputs of a dimension where other taps begin or cease to see inputs, into parts of at least `least` outputs (or
 * one part), more where there would be more than ERT_CONV_PARTS. Returns how many there are. */
int ert_conv_cut(const ert_conv_geometry *g, int d, int64_t least, ert_conv_part parts[ERT_CONV_PARTS]);

#endif
