/* The specification of products with matrices that have a bit for every weight: one weight at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_MASKED_H
#define ERT_KERNELS_SIMD_SCALAR_MASKED_H

#include "kernels/simd/sparse-values.h"

static void masked_run(ert_masked *m) {
  const char *values = m->values;
  const uint16_t *masks = m->masks;
  for (size_t begin = 0; begin < m->depth; begin += 16, masks += m->group)
    for (size_t column = 0; column < 4; column++)
      for (size_t i = begin; i < begin + 16; i++) {
        if ((masks[column] >> (i - begin) & 1) == 0) continue;
        const float weight = sparse_value(values, m->weights);
        values += ert_weights_bytes(m->weights);
        for (size_t row = 0; row < m->lanes && i < m->depth; row++) m->sums[row][column] += weight * m->x[row][i];
      }
}

#endif
