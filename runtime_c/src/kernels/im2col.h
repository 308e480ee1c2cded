/* Patches of an image as a matrix: the two ways to lay them out that convolutions by matrix product can use. */
#ifndef ERT_KERNELS_IM2COL_H
#define ERT_KERNELS_IM2COL_H

#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"

/* x is one group of a planar image, [channels][in]. Patches are columns: to[channel, tap][position], one element at a time with a
 * bounds test for each, as Caffe does. */
void ert_im2col_columns(const ert_conv_geometry *g, const float *x, const ert_strides *s, float *to);

/* Floats of the padded image with channels last that ert_im2col_rows needs; false if that overflows. */
bool ert_im2col_padded(const ert_conv_geometry *g, size_t *floats);

/* Patches are rows: to[position][tap, channel]. The image is transposed to channels last within a zeroed border first, so
 * that every patch is a few contiguous copies without a test (Wu & Wu, convolution with contiguous memory access). */
void ert_im2col_rows(const ert_conv_geometry *g, const float *x, const ert_strides *s, float *padded, float *to);

#endif
