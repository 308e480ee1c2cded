/* The specification of the direct inner loop: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_DIRECT_H
#define ERT_KERNELS_SIMD_SCALAR_DIRECT_H

#include "kernels/simd/simd.h"

static void direct_pixel(const ert_direct *d, size_t filter, size_t row, size_t pixel) {
  const float *x = d->x + (ptrdiff_t)row * d->x_row + (ptrdiff_t)pixel, *w = d->w + filter;
  const size_t at = (filter * d->rows + row) * d->pixels + pixel;
  float y = d->bias && !d->begun ? d->bias[filter] : 0.0f, total = d->begun ? d->sums[at] : 0.0f;
  bool first = !d->begun;
  for (size_t tap = 0; tap < d->n_taps; tap++) {
    y += x[d->taps[tap]] * w[tap * 16];
    if ((tap + 1) % ERT_CHAIN != 0) continue;
    total = first ? y : total + y;
    first = false;
    y = 0.0f;
  }
  if (!first) y += total;
  if (d->unfinished) {
    d->sums[at] = y;
    return;
  }
  if (d->residual)
    y += d->residual[(ptrdiff_t)filter * d->residual_filter + (ptrdiff_t)row * d->residual_row + (ptrdiff_t)pixel];
  if (y < d->lo) y = d->lo;
  if (y > d->hi) y = d->hi;
  d->y[(ptrdiff_t)filter * d->y_filter + (ptrdiff_t)row * d->y_row + (ptrdiff_t)pixel] = y;
}

static void direct_run(const ert_direct *d) {
  for (size_t filter = 0; filter < d->filters; filter++)
    for (size_t row = 0; row < d->rows; row++)
      for (size_t pixel = 0; pixel < d->pixels; pixel++) direct_pixel(d, filter, row, pixel);
}

#endif
