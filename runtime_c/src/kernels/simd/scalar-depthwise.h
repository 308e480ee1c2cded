/* The specification of depthwise convolution over blocks of 16 channels: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_DEPTHWISE_H
#define ERT_KERNELS_SIMD_SCALAR_DEPTHWISE_H

#include "kernels/simd/simd.h"

static float depthwise_sum(const ert_depthwise *d, int64_t row, int64_t column, int lane, float sum) {
  for (int64_t plane = 0; plane < d->planes; plane++)
    for (int64_t i = 0; i < d->kernel_h; i++)
      for (int64_t j = 0; j < d->kernel_w; j++) {
        const int64_t h = row * d->stride_h - d->pad_h + i * d->dilation_h;
        const int64_t w = column * d->stride_w - d->pad_w + j * d->dilation_w;
        if (h < 0 || h >= d->height || w < 0 || w >= d->width) continue;
        sum += d->x[plane * d->x_plane + (h - d->x_first) * d->x_row + w * 16 + lane] *
               d->w[((plane * d->kernel_h + i) * d->kernel_w + j) * 16 + lane];
      }
  return sum;
}

static void depthwise_run(const ert_depthwise *d) {
  for (int64_t row = 0; row < d->rows; row++)
    for (int64_t column = 0; column < d->out_width; column++)
      for (int lane = 0; lane < 16; lane++) {
        const int64_t at = row * d->y_row + column * 16 + lane;
        float y = depthwise_sum(d, d->first + row, column, lane, d->bias ? d->bias[lane] : 0.0f);
        if (d->residual) y += d->residual[at];
        if (y < d->lo) y = d->lo;
        if (y > d->hi) y = d->hi;
        d->y[at] = y;
      }
}

#endif
