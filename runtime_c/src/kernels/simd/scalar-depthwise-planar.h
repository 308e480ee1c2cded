/* The specification of depthwise convolution over planar rows: one input, then one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_DEPTHWISE_PLANAR_H
#define ERT_KERNELS_SIMD_SCALAR_DEPTHWISE_PLANAR_H

#include "kernels/simd/simd.h"

static void planes_copy(const ert_depthwise_planar *d, const ert_phase *phase, const float *x) {
  for (size_t r = 0; r < phase->rows; r++)
    for (size_t i = 0; i < phase->columns; i++)
      d->scratch[phase->to + (ptrdiff_t)(r * d->pitch + i)] =
          x[phase->from + (ptrdiff_t)r * d->x_row + (ptrdiff_t)(i * d->x_step)];
}

static float planes_sum(const ert_depthwise_planar *d, size_t taps, size_t first, size_t pixel, float sum) {
  for (size_t t = first; t < first + taps; t++)
    sum += d->scratch[d->table[d->taps[t]].at + (ptrdiff_t)pixel] * d->values[t];
  return sum;
}

/* The same straight from the input. */
static float planes_nine(const ert_depthwise_planar *d, size_t channel, size_t first, size_t row, size_t pixel,
                         float sum) {
  const float *x = d->x + (ptrdiff_t)channel * d->x_channel;
  for (size_t t = first; t < first + d->counts[channel]; t++) {
    if (d->taps[t] >= 9) continue;
    const ptrdiff_t at = d->first + (ptrdiff_t)(row * d->x_step) + d->taps[t] / 3;
    const ptrdiff_t column = (ptrdiff_t)(pixel * d->x_step) + d->taps[t] % 3 - 1;
    if (at >= 0 && at < d->height && column >= 0 && column < d->width) sum += x[at * d->row + column] * d->values[t];
  }
  return sum;
}

static void depthwise_planar_run(const ert_depthwise_planar *d) {
  size_t first = 0;
  for (size_t i = 0; i < d->channels; first += d->counts[i++]) {
    const bool nine = d->nine && d->counts[i] >= ERT_NINE_LEAST;
    for (size_t t = first; t < first + d->counts[i] && !nine; t++)
      planes_copy(d, d->phases + d->table[d->taps[t]].phase, d->x + (ptrdiff_t)i * d->x_channel);
    for (size_t r = 0; r < d->rows; r++)
      for (size_t p = 0; p < d->pixels; p++) {
        const float bias = d->bias ? d->bias[i] : 0.0f;
        float y =
            nine ? planes_nine(d, i, first, r, p, bias) : planes_sum(d, d->counts[i], first, r * d->pitch + p, bias);
        if (d->residual)
          y += d->residual[(ptrdiff_t)i * d->residual_channel + (ptrdiff_t)r * d->residual_row + (ptrdiff_t)p];
        if (y < d->lo) y = d->lo;
        if (y > d->hi) y = d->hi;
        d->y[(ptrdiff_t)i * d->y_channel + (ptrdiff_t)r * d->y_row + (ptrdiff_t)p] = y;
      }
  }
}

#endif
