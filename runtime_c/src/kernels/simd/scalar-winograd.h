/* The specification of Winograd's convolution: one channel and one sum at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_WINOGRAD_H
#define ERT_KERNELS_SIMD_SCALAR_WINOGRAD_H

#include "kernels/simd/scalar-dense.h"
#include "kernels/simd/simd.h"
#include "kernels/winograd.h"

static const ert_winograd *winograd_of(int tile) {
  return tile == 2 ? &ert_winograd_2 : tile == 4 ? &ert_winograd_4 : &ert_winograd_6;
}

/* The m + 2 inputs d, `step` apart, at the points 0, p, -p, ..., infinity; in place. */
static void winograd_forward(const ert_winograd *k, float *d, int step) {
  const int pairs = k->tile / 2, last = k->tile;
  float out[ERT_WINOGRAD_EDGE] = {d[last * step]};
  out[last + 1] = d[(last + 1) * step];
  for (int j = 0; j < pairs; j++) {
    out[0] += k->all[j] * d[2 * j * step];
    out[last + 1] += k->all[j] * d[(2 * j + 1) * step];
  }
  for (int i = 0; i < pairs; i++) {
    float even = d[last * step], odd = d[(last - 1) * step];
    for (int j = 0; j < pairs - 1; j++) {
      even += k->others[i][j] * d[(2 * j + 2) * step];
      odd += k->others[i][j] * d[(2 * j + 1) * step];
    }
    out[2 * i + 1] = even + k->point[i] * odd;
    out[2 * i + 2] = even - k->point[i] * odd;
  }
  for (int i = 0; i < k->tile + 2; i++) d[i * step] = out[i];
}

/* The m outputs from products x at those points, `step` apart; in place. */
static void winograd_back(const ert_winograd *k, float *x, int step) {
  const int pairs = k->tile / 2;
  float out[6] = {x[0]}, power[3] = {1, 1, 1};
  for (int j = 0; j < k->tile; j++)
    for (int i = 0; i < pairs; i++) {
      const float a = x[(2 * i + 1) * step], b = x[(2 * i + 2) * step];
      out[j] += power[i] * (j % 2 ? a - b : a + b);
      power[i] *= k->point[i];
    }
  out[k->tile - 1] += x[(k->tile + 1) * step];
  for (int j = 0; j < k->tile; j++) x[j * step] = out[j];
}

static void winograd_input(const ert_winograd_input *in) {
  const ert_winograd *k = winograd_of(in->tile);
  const int edge = k->tile + 2;
  for (size_t tile = 0; tile < in->tiles; tile++)
    for (int lane = 0; lane < 16; lane++) {
      float d[ERT_WINOGRAD_EDGE * ERT_WINOGRAD_EDGE];
      for (int i = 0; i < edge * edge; i++) {
        const int64_t row = in->row + i / edge, column = in->column + (int64_t)tile * k->tile + i % edge;
        const bool inside = row >= 0 && row < in->height && column >= 0 && column < in->width;
        d[i] = inside ? in->x[row * in->x_row + column * 16 + lane] : 0.0f;
      }
      for (int i = 0; i < edge; i++) winograd_forward(k, d + i, edge);
      for (int i = 0; i < edge; i++) winograd_forward(k, d + i * edge, 1);
      for (int i = 0; i < edge * edge; i++) in->y[i * in->y_tap + (ptrdiff_t)tile * 16 + lane] = d[i];
    }
}

/* The three weights g, `step` apart, at the points. */
static void winograd_kernel(const ert_winograd *k, const float *g, int step, float *out) {
  out[0] = g[0] * k->scale[0];
  for (int i = 0; i < k->tile / 2; i++) {
    const float even = g[0] + k->point[i] * k->point[i] * g[2 * step], odd = k->point[i] * g[step];
    out[2 * i + 1] = (even + odd) * k->scale[i + 1];
    out[2 * i + 2] = (even - odd) * k->scale[i + 1];
  }
  out[k->tile + 1] = g[2 * step];
}

static void winograd_weights(const ert_winograd_weights *w) {
  const ert_winograd *k = winograd_of(w->tile);
  const int edge = k->tile + 2;
  for (size_t i = 0; i < w->channels * 16; i++) {
    float g[9], lines[3][ERT_WINOGRAD_EDGE], out[ERT_WINOGRAD_EDGE];
    for (size_t t = 0; t < 9; t++) g[t] = dense_weight(w->w, w->weights, t * w->channels + i / 16, i % 16);
    for (int column = 0; column < 3; column++) winograd_kernel(k, g + column, 3, lines[column]);
    for (int row = 0; row < edge; row++) {
      winograd_kernel(k, lines[0] + row, ERT_WINOGRAD_EDGE, out);
      for (int column = 0; column < edge; column++) w->y[(row * edge + column) * w->y_tap + (ptrdiff_t)i] = out[column];
    }
  }
}

static void winograd_multiply(const ert_winograd_product *d) {
  for (size_t block = 0; block < d->blocks; block++)
    for (size_t tile = 0; tile < d->tiles; tile++)
      for (size_t lane = 0; lane < 16; lane++) {
        float sum = 0, chain = 0;
        for (size_t c = 0; c < d->channels; c++) {
          chain += d->x[(c / 16 * d->tiles + tile) * 16 + c % 16] *
                   d->w[(ptrdiff_t)block * d->w_block + (ptrdiff_t)(c * 16 + lane)];
          if ((c + 1) % ERT_WINOGRAD_CHAIN == 0) sum += chain, chain = 0;
        }
        float *y = d->y + (block * d->tiles + tile) * 16 + lane;
        *y = d->add ? *y + (sum + chain) : sum + chain;
      }
}

static void winograd_output(const ert_winograd_output *o) {
  const ert_winograd *k = winograd_of(o->tile);
  const int edge = k->tile + 2;
  for (size_t tile = 0; tile < o->tiles; tile++)
    for (int lane = 0; lane < 16; lane++) {
      float x[ERT_WINOGRAD_EDGE * ERT_WINOGRAD_EDGE];
      for (int i = 0; i < edge * edge; i++) x[i] = o->x[i * o->x_tap + (ptrdiff_t)tile * 16 + lane];
      for (int i = 0; i < edge; i++) winograd_back(k, x + i, edge);
      for (int i = 0; i < k->tile; i++) winograd_back(k, x + i * edge, 1);
      for (int i = 0; i < k->tile && i < (int)o->rows; i++)
        for (int j = 0; j < k->tile && tile * (size_t)k->tile + (size_t)j < o->columns; j++) {
          const ptrdiff_t at = ((ptrdiff_t)tile * k->tile + j) * 16 + lane;
          float y = x[i * edge + j] + (o->bias ? o->bias[lane] : 0.0f);
          if (o->residual) y += o->residual[i * o->residual_row + at];
          if (y < o->lo) y = o->lo;
          if (y > o->hi) y = o->hi;
          o->y[i * o->y_row + at] = y;
        }
    }
}

#endif
