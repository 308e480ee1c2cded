/* Columns of a sparse matrix times one row of inputs, or four: entries in fours, in vectors of four floats whatever else the
 * instruction set has, since inputs are gathered one by one. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_MATRIX_H
#define ERT_KERNELS_SIMD_F32_SPARSE_MATRIX_H

#include "kernels/simd/sparse-values.h"
#include "kernels/simd/vec.h"

enum { MATRIX_AHEAD = 1024 /* entries of the stream that are on their way */ };

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* Where four entries read, `at` being where the one before them does. */
ERT_INLINE void matrix_go_on(const uint8_t *indices, size_t *at, size_t where[4]) {
  where[0] = *at + indices[0];
  where[1] = *at + ((size_t)indices[0] + indices[1]);
  where[2] = where[1] + indices[2];
  where[3] = *at = where[1] + ((size_t)indices[2] + indices[3]);
}

/* Four values. */
ERT_INLINE quad matrix_values(const char *values, ert_weights weights) {
  if (weights == ERT_WEIGHTS_F32) return *(const quad *)(const void *)values;
#if defined(__x86_64__)
  const __m128i halves = _mm_loadl_epi64((const void *)values);
  if (weights == ERT_WEIGHTS_BF16) return (quad)_mm_unpacklo_epi16(_mm_setzero_si128(), halves);
#ifdef __F16C__
  return (quad)_mm_cvtph_ps(halves);
#else
  return (quad)vload_f16((const uint16_t *)(const void *)values);
#endif
#else
  const uint16x4_t halves = vld1_u16((const uint16_t *)(const void *)values);
  if (weights == ERT_WEIGHTS_BF16) return (quad)vshll_n_u16(halves, 16);
  return (quad)vcvt_f32_f16(vreinterpret_f16_u16(halves));
#endif
}

ERT_INLINE quad matrix_splat(float x) { return (quad){x, x, x, x}; }

/* Fused wherever that is possible: compilers do so or not as the code around it pleases, and rows alone and together have the
 * same bits. */
ERT_INLINE quad matrix_add(quad sums, quad values, quad inputs) {
#if defined(__FMA__)
  return (quad)_mm_fmadd_ps((__m128)values, (__m128)inputs, (__m128)sums);
#elif defined(__x86_64__)
  return sums + values * inputs;
#else
  return (quad)vfmaq_f32((float32x4_t)sums, (float32x4_t)values, (float32x4_t)inputs);
#endif
}

/* Both add the columns' entries in the same order. */
ERT_INLINE void matrix_one(const ert_sparse_matrix *m, ert_weights weights) {
  const float *x = m->x;
  const ptrdiff_t bytes = ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  for (size_t k = 0; k < m->columns; k++) {
    quad sums = {0};
    size_t at = 0, count = m->counts[k], w[4];
    for (; count >= ERT_MATRIX_UNCHECKED; count -= ERT_MATRIX_UNCHECKED) {
      __builtin_prefetch(values + bytes * MATRIX_AHEAD);
      __builtin_prefetch(indices + MATRIX_AHEAD);
      at = at < m->inputs ? at : m->inputs;
      for (int e = 0; e < ERT_MATRIX_UNCHECKED; e += 4, values += 4 * bytes, indices += 4) {
        matrix_go_on(indices, &at, w);
        sums = matrix_add(sums, matrix_values(values, weights), (quad){x[w[0]], x[w[1]], x[w[2]], x[w[3]]});
      }
    }
    at = at < m->inputs ? at : m->inputs;
    for (; count >= 4; count -= 4, values += 4 * bytes, indices += 4) {
      matrix_go_on(indices, &at, w);
      sums = matrix_add(sums, matrix_values(values, weights), (quad){x[w[0]], x[w[1]], x[w[2]], x[w[3]]});
    }
    quad last = {0}, inputs = {0};
    for (size_t e = 0; e < count; e++, values += bytes) {
      last[e] = sparse_value(values, weights);
      inputs[e] = x[at += indices[e]];
    }
    sums = matrix_add(sums, last, inputs);
    indices += count;
    m->y[k] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

ERT_INLINE void matrix_four(const ert_sparse_matrix *m, ert_weights weights) {
  const quad *rows = (const quad *)m->x;
  const ptrdiff_t bytes = ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  for (size_t k = 0; k < m->columns; k++) {
    quad sums[4] = {{0}};
    size_t at = 0, count = m->counts[k], w[4];
    for (; count >= 4; count -= 4, values += 4 * bytes, indices += 4) {
      at = at < m->inputs ? at : m->inputs;
      matrix_go_on(indices, &at, w);
      const quad four = matrix_values(values, weights);
      for (int e = 0; e < 4; e++) sums[e] = matrix_add(sums[e], matrix_splat(four[e]), rows[w[e]]);
    }
    at = at < m->inputs ? at : m->inputs;
    for (size_t e = 0; e < count; e++, values += bytes)
      sums[e] = matrix_add(sums[e], matrix_splat(sparse_value(values, weights)), rows[at += indices[e]]);
    indices += count;
    ((quad *)m->y)[k] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

static void sparse_matrix(const ert_sparse_matrix *m) {
  switch (m->weights) {
    case ERT_WEIGHTS_F32:
      m->lanes == 1 ? matrix_one(m, ERT_WEIGHTS_F32) : matrix_four(m, ERT_WEIGHTS_F32);
      return;
    case ERT_WEIGHTS_F16:
      m->lanes == 1 ? matrix_one(m, ERT_WEIGHTS_F16) : matrix_four(m, ERT_WEIGHTS_F16);
      return;
    case ERT_WEIGHTS_BF16:
      m->lanes == 1 ? matrix_one(m, ERT_WEIGHTS_BF16) : matrix_four(m, ERT_WEIGHTS_BF16);
      return;
  }
}

#endif
