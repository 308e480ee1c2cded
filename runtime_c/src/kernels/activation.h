/* Activations that are no more than limits, which inner loops apply for nothing before they store. */
#ifndef ERT_KERNELS_ACTIVATION_H
#define ERT_KERNELS_ACTIVATION_H

#include <math.h>

#include "kernels/simd/simd.h"
#include "kernels/unary_kinds.h"

/* How a kernel of sums finishes its outputs: clipped in registers, or by the unary function afterwards. */
typedef struct ert_finish {
  ert_activation activation;
  bool function; /* the activation is applied to what was stored */
  float lo, hi;  /* else outputs are clipped to these limits, which may be infinite */
} ert_finish;

static inline ert_finish ert_finish_of(ert_activation a) {
  ert_finish f = {.activation = a, .lo = -INFINITY, .hi = INFINITY};
  if (a.kind == ERT_UNARY_RELU) f.lo = 0;
  if (a.kind == ERT_UNARY_CLIP) f.lo = a.alpha, f.hi = a.beta;
  f.function = a.kind != ERT_UNARY_RELU && a.kind != ERT_UNARY_CLIP && a.kind != ERT_UNARY_IDENTITY;
  return f;
}

/* Applies the function, if there is one, to what was stored: `blocks` times `rows` rows of n floats. */
static inline void ert_finish_stored(const ert_finish *f, const ert_simd *simd, float *y, size_t blocks,
                                     ptrdiff_t y_block, size_t rows, ptrdiff_t y_row, size_t n) {
  if (!f->function) return;
  const ert_activation *a = &f->activation;
  if (y_row == (ptrdiff_t)n) n *= rows, rows = 1; /* they follow one another */
  if (rows == 1 && y_block == (ptrdiff_t)n) n *= blocks, blocks = 1;
  for (size_t b = 0; b < blocks; b++)
    for (size_t r = 0; r < rows; r++) {
      float *row = y + (ptrdiff_t)b * y_block + (ptrdiff_t)r * y_row;
      simd->unary(a->kind, a->alpha, a->beta, row, row, n);
    }
}

#endif
