/* The specification of the dense inner loop: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_DENSE_H
#define ERT_KERNELS_SIMD_SCALAR_DENSE_H

#include "kernels/simd/simd.h"

static float dense_sum(const ert_dense *d, const float *x, const float *w, float sum) {
  float total = 0.0f;
  size_t products = 0;
  for (const ert_span *span = d->spans; span < d->spans + d->n_spans; span++)
    for (size_t i = 0; i < span->count; i++, w += 16) {
      sum += x[span->offset + (ptrdiff_t)i] * w[0];
      if (++products % ERT_CHAIN != 0) continue;
      total = products == ERT_CHAIN ? sum : total + sum;
      sum = 0.0f;
    }
  return products < ERT_CHAIN ? sum : sum + total;
}

static void dense_pixel(const ert_dense *d, size_t row, size_t pixel, size_t block) {
  const ptrdiff_t x_at = (ptrdiff_t)row * d->x_row + (ptrdiff_t)pixel * d->x_pixel;
  const ptrdiff_t y_at = (ptrdiff_t)row * d->y_row + (ptrdiff_t)pixel * d->y_pixel + (ptrdiff_t)block * d->y_block;
  for (int lane = 0; lane < 16; lane++) {
    const float start = d->bias ? d->bias[block * 16 + (size_t)lane] : 0.0f;
    float y = dense_sum(d, d->x + x_at, d->w + (ptrdiff_t)block * d->w_block + lane, start);
    if (d->residual) y += d->residual[y_at + lane];
    if (y < d->lo) y = d->lo;
    if (y > d->hi) y = d->hi;
    d->y[y_at + lane] = y;
  }
}

static void dense_run(const ert_dense *d) {
  for (size_t block = 0; block < d->blocks; block++)
    for (size_t row = 0; row < d->rows; row++)
      for (size_t pixel = 0; pixel < d->pixels; pixel++) dense_pixel(d, row, pixel, block);
}

#endif
