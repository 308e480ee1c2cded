/* Four columns of a matrix that has a bit for every weight, times one row of inputs, or four: weights are spread once for
 * all rows. */
#ifndef ERT_KERNELS_SIMD_F32_MASKED_H
#define ERT_KERNELS_SIMD_F32_MASKED_H

#include "kernels/simd/f32-sparse-matrix.h"
#include "kernels/simd/masked-expand.h"

enum {
  MASKED_AHEAD = 4096, /* values that are on their way; to the second cache, since the first can wait for a few only */
  MASKED_CHAIN = 4096, /* inputs whose products are added up one by one, in each lane */
};

/* The products of 16 inputs are added to the sums of rows and columns; returns where the values of the next ones are. */
ERT_INLINE const char *masked_group(const float *const *x, size_t lanes, const char *values, ert_weights weights,
                                    const uint16_t *masks, vf sums[4][4]) {
  const ptrdiff_t bytes = ert_weights_bytes(weights);
  uint64_t four;
  memcpy(&four, masks, sizeof four);
  for (ptrdiff_t line = 0; line <= bytes; line++) /* as many as a group may touch */
    __builtin_prefetch(values + bytes * MASKED_AHEAD + 64 * line, 0, 2);
  for (int column = 0; column < 4; column++)
    for (int v = 0; v < V16; v++) {
      const unsigned bits = (unsigned)(four >> (16 * column + VL * v)) & ((1u << VL) - 1);
      const vf spread = masked_expand(matrix_entries(values, weights), bits);
      values += bytes * (ptrdiff_t)masked_count(bits);
      for (size_t row = 0; row < lanes; row++)
        sums[row][column] = matrix_add_all(sums[row][column], spread, vload(x[row] + v * VL));
    }
  return values;
}

/* Of all lanes. */
ERT_INLINE float masked_sum(vf sums) {
  quad four[VL / 4], sum;
  memcpy(four, &sums, sizeof four);
  sum = four[0];
  for (int i = 1; i < VL / 4; i++) sum += four[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Inputs [begin, end), whose masks begin at `masks`; those that are fewer than 16 are followed by zeros. */
ERT_INLINE const char *masked_chain(ert_masked *m, size_t lanes, const char *values, ert_weights weights,
                                    const uint16_t *masks, size_t begin, size_t end) {
  vf sums[4][4];
  const float *x[4];
  for (size_t row = 0; row < lanes; row++) {
    x[row] = m->x[row] + begin;
    for (int column = 0; column < 4; column++) sums[row][column] = vzero();
  }
  for (size_t i = begin; i + 16 <= end; i += 16, masks += m->group) {
    values = masked_group(x, lanes, values, weights, masks, sums);
    for (size_t row = 0; row < lanes; row++) x[row] += 16;
  }
  if (end % 16 > 0) {
    float rest[4][16] = {{0}};
    for (size_t row = 0; row < lanes; row++) x[row] = memcpy(rest[row], x[row], end % 16 * sizeof(float));
    values = masked_group(x, lanes, values, weights, masks, sums);
  }
  for (size_t row = 0; row < lanes; row++)
    for (int column = 0; column < 4; column++) m->sums[row][column] += masked_sum(sums[row][column]);
  return values;
}

ERT_INLINE void masked_columns(ert_masked *m, size_t lanes, ert_weights weights) {
  const char *values = m->values;
  for (size_t i = 0; i < m->depth; i += MASKED_CHAIN) {
    const size_t end = m->depth - i < MASKED_CHAIN ? m->depth : i + MASKED_CHAIN;
    values = masked_chain(m, lanes, values, weights, m->masks + (ptrdiff_t)(i / 16) * m->group, i, end);
  }
}

ERT_INLINE void masked_lanes(ert_masked *m, ert_weights weights) {
  m->lanes == 1 ? masked_columns(m, 1, weights) : masked_columns(m, 4, weights);
}

static void masked_run(ert_masked *m) {
  switch (m->weights) {
    case ERT_WEIGHTS_F32:
      masked_lanes(m, ERT_WEIGHTS_F32);
      return;
    case ERT_WEIGHTS_F16:
      masked_lanes(m, ERT_WEIGHTS_F16);
      return;
    case ERT_WEIGHTS_BF16:
      masked_lanes(m, ERT_WEIGHTS_BF16);
      return;
  }
}

#endif
