/* Folds, softmax, pooling and normalisation of float32 by plain loops: what f32-reduce.h, f32-softmax.h and f32-pool.h
 * are compared with. */
#include <math.h>

#include "kernels/simd/simd.h"

static float fold_scalar(int fold, float acc, float x) {
  switch (fold) {
    case ERT_FOLD_SUM:
      return acc + x;
    case ERT_FOLD_ABS:
      return acc + fabsf(x);
    case ERT_FOLD_SQUARE:
      return acc + x * x;
    case ERT_FOLD_MAX:
      return x > acc || x != x ? x : acc;
    default:
      return x < acc || x != x ? x : acc;
  }
}

/* Sums in float64, to be exact where vectors are by having many of them. */
static float scalar_fold_row(int fold, float acc, const float *x, size_t n) {
  if (fold == ERT_FOLD_MAX || fold == ERT_FOLD_MIN) {
    for (size_t i = 0; i < n; i++) acc = fold_scalar(fold, acc, x[i]);
    return acc;
  }
  double total = (double)acc;
  for (size_t i = 0; i < n; i++) total += (double)fold_scalar(fold, 0, x[i]);
  return (float)total;
}

static void scalar_fold_rows(int fold, const float *x, ptrdiff_t stride, size_t n, size_t rows, float *y) {
  const float first = fold == ERT_FOLD_MAX ? -INFINITY : fold == ERT_FOLD_MIN ? INFINITY : 0;
  for (size_t r = 0; r < rows; r++) y[r] = scalar_fold_row(fold, first, x + (ptrdiff_t)r * stride, n);
}

static void scalar_fold_columns(int fold, const float *x, ptrdiff_t stride, size_t rows, float *acc, size_t width) {
  for (size_t r = 0; r < rows; r++, x += stride)
    for (size_t i = 0; i < width; i++) acc[i] = fold_scalar(fold, acc[i], x[i]);
}

static void scalar_moments(float shift, const float *x, size_t n, float sums[2]) {
  double sum = 0, square = 0;
  for (size_t i = 0; i < n; i++) {
    const float less = x[i] - shift;
    sum += (double)less, square += (double)(less * less);
  }
  sums[0] = (float)sum, sums[1] = (float)square;
}

static void scalar_center(const ert_center *c, const float *scale, const float *shift, const float *x, float *y,
                          size_t n) {
  for (size_t i = 0; i < n; i++)
    y[i] = ((x[i] - c->mean) - c->rest) * c->factor * (scale ? scale[i] : 1.0f) + (shift ? shift[i] : 0.0f);
}

static void scalar_normalize_rows(const ert_normal *p, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row,
                                  size_t rows) {
  for (; rows > 0; rows--, x += x_row, y += y_row) {
    const float mean = p->rms ? 0.0f : (float)((double)scalar_fold_row(ERT_FOLD_SUM, 0, x, p->n) / (double)p->n);
    float sums[2];
    scalar_moments(mean, x, p->n, sums);
    const ert_center c = ert_center_of(p, mean, (double)sums[0], (double)sums[1]);
    scalar_center(&c, p->scale, p->shift, x, y, p->n);
  }
}

static void scalar_lrn(const ert_lrn *l) {
  for (size_t i = 0; i < l->n; i++) {
    float sum = 0;
    for (size_t k = 0; k < l->count; k++) {
      const float v = l->neighbours[(ptrdiff_t)k * l->stride + (ptrdiff_t)i];
      sum += v * v;
    }
    l->y[i] = l->x[i] * powf(sum * l->alpha + l->bias, -l->beta);
  }
}

static void scalar_softmax_columns(bool log, const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride, size_t n,
                                   size_t width) {
  for (size_t i = 0; i < width; i++, x++, y++) {
    float largest = -INFINITY, sum = 0;
    for (size_t r = 0; r < n; r++) largest = fold_scalar(ERT_FOLD_MAX, largest, x[(ptrdiff_t)r * x_stride]);
    for (size_t r = 0; r < n; r++) sum += expf(x[(ptrdiff_t)r * x_stride] - largest);
    for (size_t r = 0; r < n; r++) {
      float v = x[(ptrdiff_t)r * x_stride] - largest;
      y[(ptrdiff_t)r * y_stride] = log ? v - logf(sum) : expf(v) / sum;
    }
  }
}

static void scalar_softmax_rows(bool log, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row, size_t n,
                                size_t rows) {
  for (; rows > 0; rows--, x += x_row, y += y_row) scalar_softmax_columns(log, x, 1, y, 1, n, 1);
}

/* Column by column. */
static void scalar_pool_blocks(bool average, const ert_taps *t, const float *x, ptrdiff_t step, float factor, float *y,
                               size_t n) {
  const int fold = average ? ERT_FOLD_SUM : ERT_FOLD_MAX;
  const float first = average ? 0 : -INFINITY;
  for (size_t o = 0; o < n * 16; o++) {
    const float *at = x + (ptrdiff_t)(o / 16) * step + o % 16;
    float acc = first;
    for (size_t w = 0; w < t->count[2]; w++, at += t->stride[2]) {
      float column = first;
      for (size_t d = 0; d < t->count[0]; d++)
        for (size_t h = 0; h < t->count[1]; h++)
          column = fold_scalar(fold, column, at[(ptrdiff_t)d * t->stride[0] + (ptrdiff_t)h * t->stride[1]]);
      acc = fold_scalar(fold, acc, column);
    }
    y[o] = average ? acc * factor : acc;
  }
}

static void scalar_pool_planar(const ert_pool_planar *p) {
  const int fold = p->average ? ERT_FOLD_SUM : ERT_FOLD_MAX;
  const float first = p->average ? 0 : -INFINITY;
  for (size_t i = 0; i < p->channels * p->n_rows * p->n; i++) {
    const size_t o = i % p->n, c = i / p->n / p->n_rows;
    const ert_pool_row *row = p->rows + i / p->n % p->n_rows;
    const float *x = p->x + (ptrdiff_t)c * p->x_channel + row->x;
    float acc = first;
    for (size_t k = 0; k < p->taps; k++) {
      const size_t at = o * p->step + k * (size_t)p->tap;
      if (at < p->before || at - p->before >= p->columns) continue;
      float column = first;
      for (size_t d = 0; d < row->count[0]; d++)
        for (size_t h = 0; h < row->count[1]; h++)
          column = fold_scalar(
              fold, column,
              x[(ptrdiff_t)d * p->x_stride[0] + (ptrdiff_t)h * p->x_stride[1] + (ptrdiff_t)(at - p->before)]);
      acc = fold_scalar(fold, acc, column);
    }
    p->y[(ptrdiff_t)c * p->y_channel + row->y + (ptrdiff_t)o] =
        p->average ? acc * (1.0f / (row->divisor * p->divisors[o])) : acc;
  }
}
