/* The inner loop of 8-bit convolutions and matrix products, one table an instruction set: sums of products of unsigned bytes
 * (inputs) and signed ones (weights) in 32 bits, scaled and rounded to unsigned bytes. Integers are exact and floats are
 * rounded alike, so all tables give the same bits; i8-scalar.c is the specification. */
#ifndef ERT_KERNELS_SIMD_I8_H
#define ERT_KERNELS_SIMD_I8_H

#include "kernels/simd/simd.h"

/* From sums to bytes: q = round_half_even(clip(sum * scale, lo, hi)). Without a residual r the output is q + zero. With one,
 * it is round_half_even(clip(q * own + (r - other_zero) * other, sum_lo, sum_hi)) + sum_zero. */
typedef struct ert_i8_finish {
  float lo, hi;
  int32_t zero;
  float own, other, sum_lo, sum_hi;
  int32_t other_zero, sum_zero;
} ert_i8_finish;

/* y[row][pixel][k] = finish(bias[k] + sum over spans of x * w). Output channels come in blocks of 16, all lanes of which are
 * read and written; strides of x and y are in bytes. */
typedef struct ert_i8_dense {
  const uint8_t *x; /* pixel 0 of row 0 */
  ptrdiff_t x_pixel, x_row;
  const ert_span *spans; /* relative to a pixel; counts are multiples of 4 */
  size_t n_spans;
  const int32_t *w;    /* [blocks][inputs / 4][16]: the weights of four inputs in the bytes of each */
  ptrdiff_t w_block;   /* inputs / 4 * 16 */
  const int32_t *bias; /* [blocks][16] */
  const float *scale;  /* [blocks][16] */
  uint8_t *y;
  ptrdiff_t y_pixel, y_row, y_block;
  const uint8_t *residual; /* 16 bytes between pixels; may be y itself; or NULL */
  ptrdiff_t residual_row, residual_block;
  size_t rows, pixels, blocks;
  ert_i8_finish finish;
} ert_i8_dense;

typedef void ert_i8_dense_fn(const ert_i8_dense *d);

/* The fastest one of what `simd` stands for on this machine. */
ert_i8_dense_fn *ert_i8_dense_of(const ert_simd *simd);

#endif
