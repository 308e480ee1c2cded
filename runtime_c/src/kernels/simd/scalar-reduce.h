/* Folds, softmax, pooling and normalisation of float32 by plain loops: what f32-reduce.h, f32-softmax.h and f32-pool.h
 * are compared with. */
#include <math.h>

#include "kernels/simd/families.h"

static float fold_scalar(int fold, float acc, float x, float shift) {
  float centred = x - shift;
  switch (fold) {
    case ERT_FOLD_SUM:
      return acc + centred;
    case ERT_FOLD_ABS:
      return acc + fabsf(centred);
    case ERT_FOLD_SQUARE:
      return acc + centred * centred;
    case ERT_FOLD_MAX:
      return acc != acc || acc > x ? acc : x;
    default:
      return acc != acc || acc < x ? acc : x;
  }
}

/* Sums in float64, to be exact where vectors are by having many of them. */
static float scalar_fold_row(int fold, float acc, float shift, const float *x, size_t n) {
  if (fold == ERT_FOLD_MAX || fold == ERT_FOLD_MIN) {
    for (size_t i = 0; i < n; i++) acc = fold_scalar(fold, acc, x[i], shift);
    return acc;
  }
  double total = (double)acc;
  for (size_t i = 0; i < n; i++) total += (double)fold_scalar(fold, 0, x[i], shift);
  return (float)total;
}

static void scalar_fold_columns(int fold, const float *x, ptrdiff_t stride, size_t rows, float *acc, size_t width) {
  for (size_t r = 0; r < rows; r++, x += stride)
    for (size_t i = 0; i < width; i++) acc[i] = fold_scalar(fold, acc[i], x[i], 0);
}

static void scalar_center(float mean, float scale, const float *x, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale;
}

static void scalar_lrn(float alpha, float beta, float bias, const float *sums, const float *x, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = x[i] * powf(sums[i] * alpha + bias, -beta);
}

static void scalar_softmax_columns(bool log, const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride, size_t n,
                                   size_t width) {
  for (size_t i = 0; i < width; i++, x++, y++) {
    float largest = -INFINITY, sum = 0;
    for (size_t r = 0; r < n; r++) largest = fold_scalar(ERT_FOLD_MAX, largest, x[(ptrdiff_t)r * x_stride], 0);
    for (size_t r = 0; r < n; r++) sum += expf(x[(ptrdiff_t)r * x_stride] - largest);
    for (size_t r = 0; r < n; r++) {
      float v = x[(ptrdiff_t)r * x_stride] - largest;
      y[(ptrdiff_t)r * y_stride] = log ? v - logf(sum) : expf(v) / sum;
    }
  }
}

static void scalar_softmax_row(bool log, const float *x, float *y, size_t n) {
  scalar_softmax_columns(log, x, 1, y, 1, n, 1);
}

static void scalar_pool_blocks(bool average, const ert_taps *t, const float *x, ptrdiff_t step, float divisor, float *y,
                               size_t n) {
  for (size_t o = 0; o < n * 16; o++) {
    const float *window = x + (ptrdiff_t)(o / 16) * step + o % 16;
    float acc = average ? 0 : -INFINITY;
    for (size_t d = 0; d < t->count[0]; d++)
      for (size_t h = 0; h < t->count[1]; h++)
        for (size_t w = 0; w < t->count[2]; w++) {
          ptrdiff_t at = (ptrdiff_t)d * t->stride[0] + (ptrdiff_t)h * t->stride[1] + (ptrdiff_t)w * t->stride[2];
          acc = fold_scalar(average ? ERT_FOLD_SUM : ERT_FOLD_MAX, acc, window[at], 0);
        }
    y[o] = average ? acc / divisor : acc;
  }
}

static void scalar_pool_slide(bool sum, const float *x, size_t taps, ptrdiff_t tap, size_t step, float *y, size_t n) {
  for (size_t o = 0; o < n; o++) {
    y[o] = sum ? 0 : -INFINITY;
    for (size_t k = 0; k < taps; k++)
      y[o] = fold_scalar(sum ? ERT_FOLD_SUM : ERT_FOLD_MAX, y[o], x[(ptrdiff_t)(o * step) + (ptrdiff_t)k * tap], 0);
  }
}
