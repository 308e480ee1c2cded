/* The specification of the inner loops of bytes, in plain C. */
#include <math.h>
#include <string.h>

#include "kernels/simd/i8.h"

static float clip(float v, float lo, float hi) {
  v = v > lo ? v : lo;
  return v < hi ? v : hi;
}

/* Limits are far within 2^22, where adding 1.5 * 2^23 rounds halves to even. */
static float round_even(float v) { return (v + 12582912.0f) - 12582912.0f; }

static uint8_t finish(const ert_i8_finish *f, int32_t sum, float scale, const uint8_t *residual) {
  float v = round_even(clip((float)sum * scale, f->lo, f->hi));
  if (!f->twice) return (uint8_t)((int32_t)v + f->zero);
  v *= f->own;
  if (residual) v += (float)(*residual - f->other_zero) * f->other;
  return (uint8_t)((int32_t)round_even(clip(v, f->sum_lo, f->sum_hi)) + f->sum_zero);
}

/* Of one of 16 channels that lie side by side. */
static void finish_wide(const ert_i8_finish *f, int32_t sum, const float *scale, const float *offset, uint8_t *y,
                        size_t k) {
  if (f->result == ERT_I8_SUMS) {
    memcpy(y + k * sizeof sum, &sum, sizeof sum);
    return;
  }
  float v = (float)sum * scale[k] + offset[k];
  v = f->hi < v ? f->hi : v;
  v = f->lo > v ? f->lo : v;
  memcpy(y + k * sizeof v, &v, sizeof v);
}

static uint32_t product(const uint8_t x[4], int32_t quad) {
  int8_t w[4];
  memcpy(w, &quad, sizeof w);
  return (uint32_t)(x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3]);
}

static void pixel(const ert_i8_dense *d, const uint8_t *x, size_t block, uint8_t *y, const uint8_t *residual) {
  for (size_t k = 0; k < 16; k++) {
    const int32_t *w = d->w + (ptrdiff_t)block * d->w_block + k;
    uint32_t sum = (uint32_t)d->bias[block * 16 + k]; /* wraps */
    for (size_t s = 0; s < d->n_spans; s++)
      for (size_t i = 0; i < d->spans[s].count; i += 4, w += 16) sum += product(x + d->spans[s].offset + i, *w);
    if (d->finish.result == ERT_I8_BYTES)
      y[k] = finish(&d->finish, (int32_t)sum, d->scale[block * 16 + k], residual ? residual + k : NULL);
    else
      finish_wide(&d->finish, (int32_t)sum, d->scale + block * 16, d->offset + block * 16, y, k);
  }
}

static void dense(const ert_i8_dense *d) {
  for (size_t b = 0; b < d->blocks; b++)
    for (size_t r = 0; r < d->rows; r++)
      for (size_t p = 0; p < d->pixels; p++) {
        const ptrdiff_t block = (ptrdiff_t)b, row = (ptrdiff_t)r, column = (ptrdiff_t)p;
        const uint8_t *residual = d->residual;
        if (residual) residual += block * d->residual_block + row * d->residual_row + column * 16;
        pixel(d, d->x + row * d->x_row + column * d->x_pixel, b,
              d->y + block * d->y_block + row * d->y_row + column * d->y_pixel, residual);
      }
}

static void depthwise(const ert_i8_depthwise *d) {
  for (size_t r = 0; r < d->rows; r++)
    for (size_t p = 0; p < d->pixels; p++)
      for (size_t k = 0; k < 16; k++) {
        const ptrdiff_t row = (ptrdiff_t)r, column = (ptrdiff_t)p;
        const int32_t *w = d->w + k;
        uint32_t sum = (uint32_t)d->bias[k]; /* wraps */
        for (size_t line = 0; line < d->n_lines; line++) {
          const uint8_t *x = d->x + row * d->x_row + column * d->x_pixel + d->lines[line] + k;
          for (size_t quad = 0; quad < d->quads; quad++, x += 64, w += 16)
            sum += product((const uint8_t[4]){x[0], x[16], x[32], x[48]}, *w);
        }
        const ptrdiff_t at = column * 16 + (ptrdiff_t)k;
        const uint8_t *residual = d->residual ? d->residual + row * d->residual_row + at : NULL;
        if (d->finish.result == ERT_I8_BYTES)
          d->y[row * d->y_row + at] = finish(&d->finish, (int32_t)sum, d->scale[k], residual);
        else
          finish_wide(&d->finish, (int32_t)sum, d->scale, d->offset, d->y + row * d->y_row + column * 64, k);
      }
}

static void quantize(const float *x, float scale, int32_t zero, uint8_t *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float v = x[i] / scale;
    y[i] = v == v ? (uint8_t)((int32_t)round_even(clip(v, (float)-zero, (float)(255 - zero))) + zero) : 0;
  }
}

static void dequantize(const uint8_t *x, float scale, int32_t zero, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] - zero) * scale;
}

static void range(const float *x, size_t n, float found[2]) {
  for (size_t i = 0; i < n; i++) {
    found[0] = x[i] < found[0] ? x[i] : found[0];
    found[1] = x[i] > found[1] ? x[i] : found[1];
  }
}

static void split(const uint8_t *x, size_t n, int32_t *to, ptrdiff_t row, ptrdiff_t apart) {
  for (size_t i = 0; i < n; i++)
    for (ptrdiff_t q = 0; q < 4; q++)
      memcpy(to + (ptrdiff_t)(i / 16) * apart + q * row + (ptrdiff_t)(i % 16), x + i * 16 + (size_t)q * 4, 4);
}

static void finish_planes(const ert_i8_finish *f, const int32_t *sums, const int32_t *bias, const float *scale,
                          const uint8_t *residual, uint8_t *y) {
  for (size_t i = 0; i < 16; i++)
    for (size_t k = 0; k < 16; k++) {
      const int32_t sum = (int32_t)((uint32_t)sums[k * 16 + i] + (uint32_t)bias[k]); /* wraps */
      y[i * 16 + k] = finish(f, sum, scale[k], residual ? residual + i * 16 + k : NULL);
    }
}

static void binary(const ert_i8_binary *p, ert_i8_form form, const uint8_t *a, const uint8_t *b, uint8_t *y, size_t n) {
  const size_t of_b[] = {[ERT_I8_SAME] = SIZE_MAX, [ERT_I8_ONE] = 0, [ERT_I8_LANES] = 15};
  for (size_t i = 0; i < n; i++) {
    const float first = (float)(a[i] - p->zeros[0]), second = (float)(b[i & of_b[form]] - p->zeros[1]);
    const float value =
        p->product ? first * second * (p->scales[0] * p->scales[1]) : first * p->scales[0] + second * p->scales[1];
    y[i] = (uint8_t)((int32_t)round_even(clip(value, p->lo, p->hi)) + p->zero);
  }
}

static void lookup(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}

extern const ert_i8 ert_i8_scalar;
const ert_i8 ert_i8_scalar = {
    .dense = dense,
    .depthwise = depthwise,
    .quantize = quantize,
    .dequantize = dequantize,
    .range = range,
    .binary = binary,
    .split = split,
    .finish_planes = finish_planes,
    .lookup = lookup,
};
