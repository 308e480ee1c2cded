/* Winograd's convolution: the transforms of inputs and outputs, and the products between them.
 *
 * Vectors lie along channels, so transforms are additions of whole vectors. The products are one matrix product for each of
 * the (m + 2)^2 places of a tile: P tiles by Q blocks of 16 output channels stay in registers while the weights pass by. */
#ifndef ERT_KERNELS_SIMD_F32_WINOGRAD_H
#define ERT_KERNELS_SIMD_F32_WINOGRAD_H

#include "kernels/conv_geometry.h"
#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"
#include "kernels/winograd.h"

enum { WINOGRAD_STRIP = 4 }; /* tiles whose columns are transformed before their rows */

/* Rows or columns that are transformed at a time: with several, compilers of small register files spill. */
#if ERT_VECTOR_BYTES == 64
enum { WINOGRAD_INPUT_AT_ONCE = 8, WINOGRAD_OUTPUT_AT_ONCE = 8 };
#elif defined(__aarch64__)
enum { WINOGRAD_INPUT_AT_ONCE = 1, WINOGRAD_OUTPUT_AT_ONCE = 1 };
#else
enum { WINOGRAD_INPUT_AT_ONCE = 1, WINOGRAD_OUTPUT_AT_ONCE = 8 };
#endif

#define WINOGRAD_EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* The m + 2 inputs d along one dimension at the points 0, p, -p, ..., infinity. */
ERT_INLINE void winograd_forward(const ert_winograd *k, const vf *d, vf *out) {
  const int pairs = k->tile / 2, last = k->tile;
  vf zero = d[last], infinity = d[last + 1];
  WINOGRAD_EACH(j, pairs) {
    zero += vsplat(k->all[j]) * d[2 * j];
    infinity += vsplat(k->all[j]) * d[2 * j + 1];
  }
  out[0] = zero;
  out[last + 1] = infinity;
  WINOGRAD_EACH(i, pairs) {
    vf even = d[last], odd = d[last - 1];
    WINOGRAD_EACH(j, pairs - 1) {
      even += vsplat(k->others[i][j]) * d[2 * j + 2];
      odd += vsplat(k->others[i][j]) * d[2 * j + 1];
    }
    out[2 * i + 1] = even + vsplat(k->point[i]) * odd;
    out[2 * i + 2] = even - vsplat(k->point[i]) * odd;
  }
}

/* The m outputs along one dimension from products x at those points. */
ERT_INLINE void winograd_back(const ert_winograd *k, const vf *x, vf *out) {
  const int pairs = k->tile / 2;
  vf sums[3], differences[3];
  float power[3];
  WINOGRAD_EACH(i, pairs) {
    sums[i] = x[2 * i + 1] + x[2 * i + 2];
    differences[i] = x[2 * i + 1] - x[2 * i + 2];
    power[i] = 1.0f;
  }
  WINOGRAD_EACH(j, k->tile) {
    vf y = j == 0 ? x[0] + sums[0] : vsplat(power[0]) * (j % 2 ? differences[0] : sums[0]);
#pragma GCC unroll 2
    for (int i = 1; i < pairs; i++) y += vsplat(power[i]) * (j % 2 ? differences[i] : sums[i]);
    out[j] = j + 1 < k->tile ? y : y + x[k->tile + 1];
    WINOGRAD_EACH(i, pairs) power[i] *= k->point[i];
  }
}

/* `count` columns of inputs from column `first` on, each transformed along the rows; zeros outside of the image. */
ERT_INLINE void winograd_columns(const ert_winograd *k, const ert_winograd_input *in, int64_t first, int count,
                                 int vector, vf lines[][ERT_WINOGRAD_EDGE]) {
  static const float zeros[16];
  const int edge = k->tile + 2;
  int64_t begin, end;
  ert_taps_inside(first, 1, count, in->width, &begin, &end);
  const float *rows[ERT_WINOGRAD_EDGE];
  ptrdiff_t steps[ERT_WINOGRAD_EDGE];
  WINOGRAD_EACH(i, edge) {
    const int64_t row = in->row + i;
    const bool inside = row >= 0 && row < in->height && begin < end;
    rows[i] = (inside ? in->x + row * in->x_row + (first + begin) * 16 : zeros) + vector * VL;
    steps[i] = inside ? 16 : 0;
  }
  for (int64_t c = 0; c < count; c++) {
    if (c < begin || c >= end) {
      WINOGRAD_EACH(i, edge) lines[c][i] = vzero();
      continue;
    }
    vf d[ERT_WINOGRAD_EDGE];
    WINOGRAD_EACH(i, edge) {
      d[i] = vload(rows[i]);
      rows[i] += steps[i];
    }
    winograd_forward(k, d, lines[c]);
  }
}

ERT_INLINE void winograd_input_tiles(const ert_winograd *k, const ert_winograd_input *in) {
  const int edge = k->tile + 2;
  const ptrdiff_t y_tap = in->y_tap;
  vf lines[WINOGRAD_STRIP * 6 + 2][ERT_WINOGRAD_EDGE];
  for (size_t tile = 0; tile < in->tiles; tile += WINOGRAD_STRIP) {
    const int count = in->tiles - tile < WINOGRAD_STRIP ? (int)(in->tiles - tile) : WINOGRAD_STRIP;
    for (int v = 0; v < V16; v++) {
      winograd_columns(k, in, in->column + (int64_t)tile * k->tile, count * k->tile + 2, v, lines);
      for (int t = 0; t < count; t++) {
        float *y = in->y + (tile + (size_t)t) * 16 + (size_t)v * VL;
#pragma GCC unroll WINOGRAD_INPUT_AT_ONCE
        for (int i = 0; i < edge; i++) {
          vf d[ERT_WINOGRAD_EDGE], out[ERT_WINOGRAD_EDGE];
          WINOGRAD_EACH(j, edge) d[j] = lines[t * k->tile + j][i];
          winograd_forward(k, d, out);
          WINOGRAD_EACH(j, edge) {
            vstore(y, out[j]);
            y += y_tap;
          }
        }
      }
    }
  }
}

/* One vector of channels of a tile; of its outputs those in the first `rows` rows and `columns` columns are stored. */
ERT_INLINE void winograd_output_tile(const ert_winograd *k, const ert_winograd_output *o, size_t tile, int rows,
                                     int columns, int vector) {
  const int edge = k->tile + 2;
  const float *x = o->x + tile * 16 + vector * VL;
  const ptrdiff_t x_tap = o->x_tap;
  vf lines[ERT_WINOGRAD_EDGE][ERT_WINOGRAD_EDGE];
#pragma GCC unroll WINOGRAD_OUTPUT_AT_ONCE
  for (int j = 0; j < edge; j++) {
    vf column[ERT_WINOGRAD_EDGE];
    WINOGRAD_EACH(i, edge) column[i] = vload(x + (i * edge + j) * x_tap);
    winograd_back(k, column, lines[j]);
  }
  const vf bias = o->bias ? vload(o->bias + vector * VL) : vzero(), lo = vsplat(o->lo), hi = vsplat(o->hi);
  const ptrdiff_t at = (ptrdiff_t)tile * k->tile * 16 + vector * VL;
#pragma GCC unroll WINOGRAD_OUTPUT_AT_ONCE
  for (int i = 0; i < k->tile; i++) {
    if (i >= rows) break;
    vf row[ERT_WINOGRAD_EDGE], out[ERT_WINOGRAD_EDGE];
    WINOGRAD_EACH(j, edge) row[j] = lines[j][i];
    winograd_back(k, row, out);
    float *y = o->y + i * o->y_row + at;
    const float *residual = o->residual ? o->residual + i * o->residual_row + at : NULL;
    WINOGRAD_EACH(j, k->tile) {
      if (j >= columns) break;
      vf sum = out[j] + bias;
      if (residual) sum += vload(residual + j * 16);
      vstore(y + j * 16, vmin(hi, vmax(lo, sum)));
    }
  }
}

ERT_INLINE void winograd_output_tiles(const ert_winograd *k, const ert_winograd_output *o) {
  for (size_t tile = 0; tile < o->tiles; tile++) {
    const size_t left = o->columns - tile * (size_t)k->tile;
    for (int v = 0; v < V16; v++)
      if (o->rows >= (size_t)k->tile && left >= (size_t)k->tile)
        winograd_output_tile(k, o, tile, k->tile, k->tile, v);
      else
        winograd_output_tile(k, o, tile, (int)o->rows, left < 6 ? (int)left : 6, v);
  }
}

static void winograd_input(const ert_winograd_input *in) {
  if (in->tile == 2)
    winograd_input_tiles(&ert_winograd_2, in);
  else if (in->tile == 4)
    winograd_input_tiles(&ert_winograd_4, in);
  else
    winograd_input_tiles(&ert_winograd_6, in);
}

static void winograd_output(const ert_winograd_output *out) {
  if (out->tile == 2)
    winograd_output_tiles(&ert_winograd_2, out);
  else if (out->tile == 4)
    winograd_output_tiles(&ert_winograd_4, out);
  else
    winograd_output_tiles(&ert_winograd_6, out);
}

/* The three weights g along one dimension at the points. */
ERT_INLINE void winograd_kernel(const ert_winograd *k, const vf g0, const vf g1, const vf g2, vf *out) {
  out[0] = g0 * vsplat(k->scale[0]);
  WINOGRAD_EACH(i, k->tile / 2) {
    const float scale = k->scale[i + 1], point = k->point[i];
    const vf even = vsplat(scale) * g0 + vsplat(scale * point * point) * g2;
    out[2 * i + 1] = even + vsplat(scale * point) * g1;
    out[2 * i + 2] = even - vsplat(scale * point) * g1;
  }
  out[k->tile + 1] = g2;
}

ERT_INLINE void winograd_weights_of(const ert_winograd *k, const ert_winograd_weights *w, int kind) {
  const int edge = k->tile + 2, channels = (int)w->channels;
  for (int at = 0; at < channels * 16; at += VL) {
    vf lines[3][ERT_WINOGRAD_EDGE];
    WINOGRAD_EACH(j, 3) {
      vf g[3];
      WINOGRAD_EACH(i, 3) g[i] = dense_weights(w->w, (3 * i + j) * channels + at / 16, at % 16, kind);
      winograd_kernel(k, g[0], g[1], g[2], lines[j]);
    }
    float *y = w->y + at;
#pragma GCC unroll WINOGRAD_OUTPUT_AT_ONCE
    for (int i = 0; i < edge; i++) {
      vf out[ERT_WINOGRAD_EDGE];
      winograd_kernel(k, lines[0][i], lines[1][i], lines[2][i], out);
      WINOGRAD_EACH(j, edge) {
        vstore(y, out[j]);
        y += w->y_tap;
      }
    }
  }
}

ERT_INLINE void winograd_weights_as(const ert_winograd_weights *w, int kind) {
  if (w->tile == 2)
    winograd_weights_of(&ert_winograd_2, w, kind);
  else if (w->tile == 4)
    winograd_weights_of(&ert_winograd_4, w, kind);
  else
    winograd_weights_of(&ert_winograd_6, w, kind);
}

static void winograd_weights(const ert_winograd_weights *w) {
  if (w->weights == ERT_WEIGHTS_F32)
    winograd_weights_as(w, ERT_WEIGHTS_F32);
  else if (w->weights == ERT_WEIGHTS_F16)
    winograd_weights_as(w, ERT_WEIGHTS_F16);
  else
    winograd_weights_as(w, ERT_WEIGHTS_BF16);
}

/* The shapes X(tiles, blocks) of products that fit the registers of this instruction set. */
#if ERT_VECTOR_BYTES == 64
#define WINOGRAD_SHAPES_1(X) \
  X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1) X(13, 1) X(14, 1)
#define WINOGRAD_SHAPES_2(X) \
  X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
#define WINOGRAD_SHAPES_4(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
#elif ERT_VECTOR_BYTES == 32
#define WINOGRAD_SHAPES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#define WINOGRAD_SHAPES_2(X)
#define WINOGRAD_SHAPES_4(X)
#elif defined(__aarch64__)
#define WINOGRAD_SHAPES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1)
#define WINOGRAD_SHAPES_2(X)
#define WINOGRAD_SHAPES_4(X)
#else
#define WINOGRAD_SHAPES_1(X) X(1, 1) X(2, 1)
#define WINOGRAD_SHAPES_2(X)
#define WINOGRAD_SHAPES_4(X)
#endif

enum { WINOGRAD_MAX_P = 14, WINOGRAD_MAX_VECTORS = 4 * V16 };

/* Adds `steps` (1 or 4) consecutive channels of each tile times as many weight rows. */
ERT_INLINE void winograd_steps(vf acc[WINOGRAD_MAX_P][WINOGRAD_MAX_VECTORS], const float *x, const float *w,
                               ptrdiff_t w_block, int steps, int P, int Q) {
#if defined(__aarch64__) /* a lane can be multiplied without being broadcast first: inputs are loaded four at a time */
  vf inputs[WINOGRAD_MAX_P];
#pragma GCC unroll 14
  for (int p = 0; p < P; p++) inputs[p] = steps == VL ? vload(x + p * 16) : vsplat(x[p * 16]);
#endif
#pragma GCC unroll 4
  for (int c = 0; c < steps; c++) {
    vf row[WINOGRAD_MAX_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < Q * V16; v++) row[v] = vload(w + (v / V16) * w_block + c * 16 + (v % V16) * VL);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
#if defined(__aarch64__)
      const vf value = vsplat(inputs[p][c]);
#else
      const vf value = vsplat(x[p * 16 + c]);
#endif
#pragma GCC unroll 4
      for (int v = 0; v < Q * V16; v++) acc[p][v] += value * row[v];
    }
  }
}

/* P tiles by Q blocks: the sums of chains of channels, added up. Every four channels ask for `lines` cache lines of `ahead`. */
ERT_INLINE void winograd_shape(const ert_winograd_product *d, const float *x, const float *w, float *y,
                               const char *ahead, size_t lines, int P, int Q) {
  const ptrdiff_t x_block = (ptrdiff_t)d->tiles * 16, w_block = d->w_block;
  for (size_t chain = 0; chain < d->channels; chain += ERT_WINOGRAD_CHAIN) {
    vf acc[WINOGRAD_MAX_P][WINOGRAD_MAX_VECTORS];
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
      for (int v = 0; v < Q * V16; v++) acc[p][v] = vzero();
    }
    const size_t rest = d->channels - chain, end = rest < ERT_WINOGRAD_CHAIN ? rest : ERT_WINOGRAD_CHAIN;
    for (size_t block = 0; block < end; block += 16, x += x_block) {
      const size_t count = end - block < 16 ? end - block : 16;
      size_t c = 0;
      for (; c + 4 <= count; c += 4, w += 4 * 16) {
        for (size_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
        winograd_steps(acc, x + c, w, w_block, 4, P, Q);
      }
      for (; c < count; c++, w += 16) winograd_steps(acc, x + c, w, w_block, 1, P, Q);
    }
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
      for (int v = 0; v < Q * V16; v++) {
        float *to = y + (v / V16) * x_block + p * 16 + (v % V16) * VL;
        vstore(to, chain || d->add ? vload(to) + acc[p][v] : acc[p][v]);
      }
    }
  }
}

typedef void winograd_shape_fn(const ert_winograd_product *d, const float *x, const float *w, float *y,
                               const char *ahead, size_t lines);

#define WINOGRAD_DEFINE(P, Q)                                                                                   \
  static void winograd_shape_##P##x##Q(const ert_winograd_product *d, const float *x, const float *w, float *y, \
                                       const char *ahead, size_t lines) {                                       \
    winograd_shape(d, x, w, y, ahead, lines, P, Q);                                                             \
  }
WINOGRAD_SHAPES_1(WINOGRAD_DEFINE)
WINOGRAD_SHAPES_2(WINOGRAD_DEFINE)
WINOGRAD_SHAPES_4(WINOGRAD_DEFINE)
#undef WINOGRAD_DEFINE

#define WINOGRAD_ENTRY(P, Q) [P] = winograd_shape_##P##x##Q,
#define WINOGRAD_COUNT(P, Q) +1
/* By blocks, then by tiles. */
static const struct winograd_width {
  size_t blocks, most;
  winograd_shape_fn *shapes[WINOGRAD_MAX_P + 1];
} winograd_widths[] = {
    {4, 0 WINOGRAD_SHAPES_4(WINOGRAD_COUNT), {NULL, WINOGRAD_SHAPES_4(WINOGRAD_ENTRY)}},
    {2, 0 WINOGRAD_SHAPES_2(WINOGRAD_COUNT), {NULL, WINOGRAD_SHAPES_2(WINOGRAD_ENTRY)}},
    {1, 0 WINOGRAD_SHAPES_1(WINOGRAD_COUNT), {NULL, WINOGRAD_SHAPES_1(WINOGRAD_ENTRY)}},
};
#undef WINOGRAD_ENTRY
#undef WINOGRAD_COUNT

/* The widest shape of which one row of tiles needs no more than of the narrowest. */
static const struct winograd_width *winograd_width_for(size_t tiles, size_t blocks) {
  const struct winograd_width *width = winograd_widths, *last = width + sizeof winograd_widths / sizeof *width - 1;
  for (; width < last; width++)
    if (width->blocks <= blocks && width->most > 0 &&
        (tiles + width->most - 1) / width->most <= (tiles + last->most - 1) / last->most)
      break;
  return width;
}

/* What comes next is fetched into the second-level cache meanwhile. */
static void winograd_multiply(const ert_winograd_product *d) {
  for (size_t block = 0; block < d->blocks;) {
    const struct winograd_width *width = winograd_width_for(d->tiles, d->blocks - block);
    const float *w = d->w + (ptrdiff_t)block * d->w_block;
    const char *ahead = d->ahead ? d->ahead : (const char *)(w + (ptrdiff_t)width->blocks * d->w_block);
    const size_t shapes = (d->tiles + width->most - 1) / width->most;
    const size_t lines = d->ahead ? (d->lines * 4 + shapes * d->channels - 1) / (shapes * d->channels)
                                  : (4 * width->blocks + shapes - 1) / shapes;
    for (size_t shape = 0, begin = 0; shape < shapes; shape++) {
      const size_t count = (d->tiles - begin) / (shapes - shape);
      float *y = d->y + (block * d->tiles + begin) * 16;
      width->shapes[count](d, d->x + begin * 16, w, y, ahead + shape * lines * d->channels * 16, lines);
      begin += count;
    }
    block += width->blocks;
  }
}

#endif
