/* The inner loops of bytes, one table an instruction set: convolutions and matrix products, as sums of products of unsigned
 * bytes (inputs) and signed ones (weights) in 32 bits, scaled and rounded to unsigned bytes or left as they are; floats to
 * bytes and back.
 * Integers are exact and floats are rounded alike, so all tables give the same bits; i8-scalar.c is the specification. */
#ifndef ERT_KERNELS_SIMD_I8_H
#define ERT_KERNELS_SIMD_I8_H

#include "kernels/simd/simd.h"

/* What becomes of sums: bytes, floats, or themselves. */
typedef enum ert_i8_result { ERT_I8_BYTES, ERT_I8_FLOATS, ERT_I8_SUMS } ert_i8_result;

/* To floats: the output is clip(sum * scale + offset, lo, hi). To bytes: q = round_half_even(clip(sum * scale, lo, hi)), and the output is q + zero. With `twice` q is in between:
 * the output is round_half_even(clip(q * own + (r - other_zero) * other, sum_lo, sum_hi)) + sum_zero, without a residual r
 * round_half_even(clip(q * own, sum_lo, sum_hi)) + sum_zero. */
typedef struct ert_i8_finish {
  ert_i8_result result;
  float lo, hi;
  int32_t zero;
  bool twice;
  float own, other, sum_lo, sum_hi;
  int32_t other_zero, sum_zero;
} ert_i8_finish;

/* What a block of output channels has weights for that are not zero: spans [first, end), inputs from `begin` on. */
typedef struct ert_i8_range {
  size_t first, end;
  ptrdiff_t begin;
} ert_i8_range;

/* y[row][pixel][k] = finish(bias[k] + sum over spans of x * w). Output channels come in blocks of 16, all lanes of which are
 * read and written; strides of x and y are in bytes. */
typedef struct ert_i8_dense {
  const uint8_t *x;      /* pixel 0 of row 0 */
  const int32_t *wide_x; /* or the same as `widen` leaves it: then strides and spans still count inputs */
  int32_t *wide_w;       /* with it: scratch of 2 w_block */
  ptrdiff_t x_pixel, x_row;
  const ert_span *spans; /* relative to a pixel; counts are multiples of 4 */
  size_t n_spans;
  const ert_i8_range *ranges; /* [blocks], ascending; or NULL: all weights count */
  const int32_t *w;           /* [blocks][inputs / 4][16]: the weights of four inputs in the bytes of each */
  ptrdiff_t w_block;          /* inputs / 4 * 16, or more if they are a view */
  const int32_t *bias;        /* [blocks][16] */
  const float *scale;         /* [blocks][16]; not for sums */
  const float *offset;        /* [blocks][16]; for floats only */
  uint8_t *y;
  ptrdiff_t y_pixel, y_row, y_block;
  const uint8_t *residual; /* of bytes: 16 bytes between pixels; may be y itself; or NULL */
  ptrdiff_t residual_row, residual_block;
  size_t rows, pixels, blocks;
  ert_i8_finish finish;
} ert_i8_dense;

/* y[row][pixel][k] = finish(bias[k] + sum over lines and taps of x * w) for a block of 16 channels with a filter each, all
 * lanes of which are read and written. Strides are in bytes; neighbouring taps are 16 bytes apart, and pixels of y follow one another. */
typedef struct ert_i8_depthwise {
  const uint8_t *x;         /* the first tap of pixel 0 of row 0 */
  ptrdiff_t x_pixel, x_row; /* between the first taps of neighbouring outputs */
  const ptrdiff_t *lines;   /* where the taps of each row of the kernel begin, relative to a pixel */
  size_t n_lines, quads;    /* of four taps in each line, all of which are read */
  const int32_t *w;         /* [lines][quads][16]: the weights of four taps in the bytes of each */
  const int32_t *bias;      /* [16] */
  const float *scale;       /* [16]; not for sums */
  const float *offset;      /* [16]; for floats only */
  uint8_t *y;
  ptrdiff_t y_row;
  const uint8_t *residual; /* of bytes: 16 bytes between pixels; may be y itself; or NULL */
  ptrdiff_t residual_row;
  size_t rows, pixels;
  ert_i8_finish finish;
} ert_i8_depthwise;

/* y = round_half_even(clip(v, lo, hi)) + zero; v is the sum of (a - zeros[0]) scales[0] and (b - zeros[1]) scales[1], or the
 * product of the differences and of that of the scales. */
typedef struct ert_i8_binary {
  bool product;
  int32_t zeros[2], zero;
  float scales[2], lo, hi;
} ert_i8_binary;

/* What b has for the elements of a: one each, one for all, or 16 by turns, the first for the first. */
typedef enum ert_i8_form { ERT_I8_SAME, ERT_I8_ONE, ERT_I8_LANES } ert_i8_form;

typedef struct ert_i8 {
  void (*dense)(const ert_i8_dense *d);
  /* Four inputs after the other, n in all, as 16 bits in two elements: the first and third, then the second and fourth. Many
   * pixels of such are faster; NULL: they are not, and `dense` does not take them. */
  void (*widen)(const uint8_t *x, size_t n, int32_t *wide);
  void (*depthwise)(const ert_i8_depthwise *d);
  /* y = saturate(round_half_even(x / scale) + zero), 0 for NaN; and y = (x - zero) * scale. Zero points are bytes. */
  void (*quantize)(const float *x, float scale, int32_t zero, uint8_t *y, size_t n);
  void (*dequantize)(const uint8_t *x, float scale, int32_t zero, float *y, size_t n);
  /* Widens range[0] to range[1] until all numbers of x lie in between; NaN does nothing. */
  void (*range)(const float *x, size_t n, float range[2]);
  /* n elements; y may be a or b. */
  void (*binary)(const ert_i8_binary *p, ert_i8_form form, const uint8_t *a, const uint8_t *b, uint8_t *y, size_t n);
  /* Words of n pixels, four each: word q of pixel i at to[i / 16 * apart + q * row + i % 16]; rows are written up to a whole
   * sixteen. */
  void (*split)(const uint8_t *x, size_t n, int32_t *to, ptrdiff_t row, ptrdiff_t apart);
  /* The sums of 16 channels, sixteen positions of each, with the bias to bytes: sixteen pixels of 16 channels, which residuals
   * are, too (NULL: none). */
  void (*finish_planes)(const ert_i8_finish *f, const int32_t *sums, const int32_t *bias, const float *scale,
                        const uint8_t *residual, uint8_t *y);
  bool unrolls; /* what makes instructions of weights may make products of bytes */
  void (*lookup)(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n);
} ert_i8;

/* The fastest one of what `simd` stands for on this machine. */
const ert_i8 *ert_i8_of(const ert_simd *simd);

#endif
