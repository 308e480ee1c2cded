/* The specification of products with slices of a sparse matrix: one weight at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_SLICED_H
#define ERT_KERNELS_SIMD_SCALAR_SLICED_H

#include "kernels/simd/simd.h"

static void sliced_run(const ert_sliced *s) {
  for (size_t i = 0; i < s->steps; i++)
    for (size_t column = 0; column < 16; column++) {
      const unsigned two = s->places[i * 8 + 4 * (column % 2) + column / 4];
      const unsigned place = column / 2 % 2 == 0 ? two & 15 : two >> 4;
      s->sums[column] += s->values[i * 16 + column] * s->x[s->windows[i] + place];
    }
}

#endif
