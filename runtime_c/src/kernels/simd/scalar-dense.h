/* The specification of the dense inner loop: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_DENSE_H
#define ERT_KERNELS_SIMD_SCALAR_DENSE_H

#include "kernels/simd/half.h"
#include "kernels/simd/simd.h"

/* Lane `lane` of row `row` of the weights at w. */
static float dense_weight(const void *w, ert_weights weights, size_t row, size_t lane) {
  const uint16_t *half = w;
  if (weights == ERT_WEIGHTS_F16) return ert_float_of_f16(half[row * 16 + lane]);
  if (weights == ERT_WEIGHTS_BF16) return ert_float_of_bf16(half[row / 2 * 32 + lane * 2 + row % 2]);
  return ((const float *)w)[row * 16 + lane];
}

static float dense_sum(const ert_dense *d, const float *x, const void *w, size_t lane, float sum, const float *begun) {
  float total = begun ? *begun : 0.0f;
  bool first = !begun;
  size_t products = 0;
  for (const ert_span *span = d->spans; span < d->spans + d->n_spans; span++)
    for (size_t i = 0; i < span->skip + span->count; i++) {
      if (i >= span->skip)
        sum += x[span->offset + (ptrdiff_t)(i - span->skip)] * dense_weight(w, d->weights, products, lane);
      if (++products % ERT_CHAIN != 0) continue;
      total = first ? sum : total + sum;
      sum = 0.0f;
      first = false;
    }
  return first ? sum : sum + total;
}

static void dense_pixel(const ert_dense *d, size_t row, size_t pixel, size_t block) {
  const ptrdiff_t x_at = (ptrdiff_t)row * d->x_row + (ptrdiff_t)pixel * d->x_pixel;
  const ptrdiff_t y_at = (ptrdiff_t)row * d->y_row + (ptrdiff_t)pixel * d->y_pixel + (ptrdiff_t)block * d->y_block;
  const char *w = (const char *)d->w + (ptrdiff_t)block * d->w_block * ert_weights_bytes(d->weights);
  for (int lane = 0; lane < 16; lane++) {
    const float start = d->bias ? d->bias[block * 16 + (size_t)lane] : 0.0f;
    const float *begun = d->begun ? d->y + y_at + lane : NULL;
    float y = dense_sum(d, (const float *)d->x + x_at, w, (size_t)lane, start, begun);
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

static void round_bf16(const float *x, void *y, size_t n) {
  for (size_t i = 0; i < n; i++) ((float *)y)[i] = ert_round_bf16(x[i]);
}

#endif
