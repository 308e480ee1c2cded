/* Columns of a sparse matrix times one row of inputs, or 4, 8 or 16: entries in fours. Single ones of one row, or four, are
 * of vectors of four floats whatever else the instruction set has; more rows, and blocks of four, fill any vector. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_MATRIX_H
#define ERT_KERNELS_SIMD_F32_SPARSE_MATRIX_H

#include "kernels/simd/sparse-values.h"
#include "kernels/simd/vec.h"

enum {
  MATRIX_AHEAD = 1024, /* values of the stream that are on their way */
  MATRIX_LINE = 16,    /* single ones that are asked for at once */
};

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
ERT_INLINE quad matrix_load(const float *x) { return *(const quad *)(const void *)x; }

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

/* ---- single entries of one row and of four: both add the columns' entries in the same order ---- */

ERT_INLINE void matrix_one(const ert_sparse_matrix *m, ert_weights weights) {
  const float *x = m->x;
  const ptrdiff_t bytes = ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  for (size_t k = 0; k < m->columns; k++) {
    quad sums = {0};
    size_t at = 0, count = m->counts[k], w[4];
    for (; count >= MATRIX_LINE; count -= MATRIX_LINE) {
      __builtin_prefetch(values + bytes * MATRIX_AHEAD);
      __builtin_prefetch(indices + MATRIX_AHEAD);
      for (int e = 0; e < MATRIX_LINE; e += 4, values += 4 * bytes, indices += 4) {
        matrix_go_on(indices, &at, w);
        sums = matrix_add(sums, matrix_values(values, weights), (quad){x[w[0]], x[w[1]], x[w[2]], x[w[3]]});
      }
    }
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
  const float *x = m->x;
  const ptrdiff_t bytes = ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  for (size_t k = 0; k < m->columns; k++) {
    quad sums[4] = {{0}};
    size_t at = 0, count = m->counts[k], w[4];
    for (; count >= 4; count -= 4, values += 4 * bytes, indices += 4) {
      matrix_go_on(indices, &at, w);
      const quad four = matrix_values(values, weights);
      for (int e = 0; e < 4; e++) sums[e] = matrix_add(sums[e], matrix_splat(four[e]), matrix_load(x + 4 * w[e]));
    }
    for (size_t e = 0; e < count; e++, values += bytes)
      sums[e] =
          matrix_add(sums[e], matrix_splat(sparse_value(values, weights)), matrix_load(x + 4 * (at += indices[e])));
    indices += count;
    ((quad *)m->y)[k] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

/* ---- blocks of four columns of an input, or of four inputs of a column: likewise ---- */

/* The values of V = VL / 4 entries. */
ERT_INLINE vf matrix_entries(const char *values, ert_weights weights) {
  if (weights == ERT_WEIGHTS_F32) return *(const vf_at *)(const void *)values;
  const uint16_t *halves = (const uint16_t *)(const void *)values;
  return weights == ERT_WEIGHTS_F16 ? vload_f16(halves) : vload_bf16(halves);
}

ERT_INLINE vf matrix_add_all(vf sums, vf values, vf inputs) {
#if ERT_VECTOR_BYTES == 64
  return (vf)_mm512_fmadd_ps((__m512)values, (__m512)inputs, (__m512)sums);
#elif ERT_VECTOR_BYTES == 32
  return (vf)_mm256_fmadd_ps((__m256)values, (__m256)inputs, (__m256)sums);
#else
  return (vf)matrix_add((quad)sums, (quad)values, (quad)inputs);
#endif
}

/* The quads of neighbouring entries. */
ERT_INLINE vf matrix_join(const quad *of) {
#if ERT_VECTOR_BYTES == 64
  const __m512 two = _mm512_insertf32x4(_mm512_castps128_ps512((__m128)of[0]), (__m128)of[1], 1);
  return (vf)_mm512_insertf32x4(_mm512_insertf32x4(two, (__m128)of[2], 2), (__m128)of[3], 3);
#elif ERT_VECTOR_BYTES == 32
  return (vf)_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)of[0]), (__m128)of[1], 1);
#else
  return (vf)of[0];
#endif
}

/* The same quad in all of a vector. */
ERT_INLINE vf matrix_repeat(quad four) {
#if ERT_VECTOR_BYTES == 64
  return (vf)_mm512_broadcast_f32x4((__m128)four);
#else
  return matrix_join((const quad[]){four, four});
#endif
}

/* Vector v of the four values, each four times. */
ERT_INLINE vf matrix_spread(quad four, int v) {
#if ERT_VECTOR_BYTES == 64
  (void)v;
  const __m512i lanes = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  return (vf)_mm512_permutexvar_ps(lanes, _mm512_castps128_ps512((__m128)four));
#elif ERT_VECTOR_BYTES == 32
  const quad of[2] = {matrix_splat(four[2 * v]), matrix_splat(four[2 * v + 1])};
  return matrix_join(of);
#else
  return (vf)matrix_splat(four[v]);
#endif
}

ERT_INLINE quad matrix_inputs(const float *x, size_t at, bool deep) {
  return deep ? matrix_load(x + 4 * at) : matrix_splat(x[at]);
}

/* Sum number e has every fourth entry from entry e on. */
ERT_INLINE void matrix_blocks(const ert_sparse_matrix *m, ert_weights weights, bool deep) {
  const float *x = m->x;
  const ptrdiff_t bytes = 4 * ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  float *y = m->y;
  for (size_t k = 0; k < m->columns / m->together; k++) {
    vf all[V16];
    for (int v = 0; v < V16; v++) all[v] = vzero();
    size_t at = 0, count = m->counts[k], w[4];
    for (; count >= 4; count -= 4, indices += 4) {
      __builtin_prefetch(values + bytes / 4 * MATRIX_AHEAD);
      matrix_go_on(indices, &at, w);
      const quad inputs[4] = {matrix_inputs(x, w[0], deep), matrix_inputs(x, w[1], deep), matrix_inputs(x, w[2], deep),
                              matrix_inputs(x, w[3], deep)};
      for (int v = 0; v < V16; v++, values += bytes * VL / 4)
        all[v] = matrix_add_all(all[v], matrix_entries(values, weights), matrix_join(inputs + v * VL / 4));
    }
    quad sums[4];
    memcpy(sums, all, sizeof sums);
    for (size_t e = 0; e < count; e++, values += bytes)
      sums[e] = matrix_add(sums[e], matrix_values(values, weights), matrix_inputs(x, at += indices[e], deep));
    indices += count;
    const quad sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if (deep)
      *y++ += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    else
      *(quad *)y += sum, y += 4;
  }
}

/* One entry for four rows. */
ERT_INLINE void matrix_block_four(vf *sums, const float *x, const char *values, ert_weights weights, bool deep) {
  const quad four = matrix_values(values, weights);
  for (int v = 0; v < V16; v++)
    sums[v] = matrix_add_all(sums[v], matrix_spread(four, v), deep ? vload(x + v * VL) : matrix_repeat(matrix_load(x)));
}

ERT_INLINE void matrix_blocks_four(const ert_sparse_matrix *m, ert_weights weights, bool deep) {
  const size_t place = deep ? 16 : 4; /* floats */
  const ptrdiff_t bytes = 4 * ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  float *y = m->y;
  for (size_t k = 0; k < m->columns / m->together; k++) {
    vf sums[4][V16];
    for (int e = 0; e < 4; e++)
      for (int v = 0; v < V16; v++) sums[e][v] = vzero();
    const float *x = m->x;
    size_t count = m->counts[k];
    for (; count >= 4; count -= 4) {
      __builtin_prefetch(values + bytes / 4 * MATRIX_AHEAD);
      for (int e = 0; e < 4; e++, values += bytes)
        matrix_block_four(sums[e], x += *indices++ * place, values, weights, deep);
    }
    for (size_t e = 0; e < count; e++, values += bytes)
      matrix_block_four(sums[e], x += *indices++ * place, values, weights, deep);
    float sum[16];
    for (int v = 0; v < V16; v++) vstore(sum + v * VL, (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]));
    if (deep) {
      *(quad *)y += (matrix_load(sum) + matrix_load(sum + 4)) + (matrix_load(sum + 8) + matrix_load(sum + 12));
      y += 4;
    } else {
      for (int i = 0; i < 16; i++) *y++ += sum[i];
    }
  }
}

/* ---- single entries of 8 and 16 rows: likewise ---- */

/* Where eight rows are half a vector, the other half of it is zero. */
ERT_INLINE vf matrix_load_rows(const float *x, int lanes) {
#if ERT_VECTOR_BYTES == 64
  if (lanes == 8) return (vf)_mm512_zextps256_ps512(_mm256_loadu_ps(x));
#endif
  (void)lanes;
  return vload(x);
}

ERT_INLINE void matrix_store_rows(float *y, vf sums, int lanes) {
#if ERT_VECTOR_BYTES == 64
  if (lanes == 8) {
    _mm256_storeu_ps(y, _mm512_castps512_ps256((__m512)sums));
    return;
  }
#endif
  (void)lanes;
  vstore(y, sums);
}

/* One entry for 8 or 16 rows. */
ERT_INLINE void matrix_rows_add(vf *sums, const float *x, float value, int lanes) {
  for (int v = 0; v * VL < lanes; v++)
    sums[v] = matrix_add_all(sums[v], vsplat(value), matrix_load_rows(x + v * VL, lanes));
}

ERT_INLINE void matrix_rows(const ert_sparse_matrix *m, ert_weights weights, int lanes) {
  const ptrdiff_t bytes = ert_weights_bytes(weights);
  const char *values = m->values;
  const uint8_t *indices = m->indices;
  float *y = m->y;
  for (size_t k = 0; k < m->columns; k++) {
    vf sums[4][V16];
    for (int e = 0; e < 4; e++)
      for (int v = 0; v < V16; v++) sums[e][v] = vzero();
    const float *x = m->x;
    size_t count = m->counts[k];
    for (; count >= 4; count -= 4, values += 4 * bytes) {
      const quad four = matrix_values(values, weights);
      for (int e = 0; e < 4; e++) matrix_rows_add(sums[e], x += *indices++ * lanes, four[e], lanes);
    }
    for (size_t e = 0; e < count; e++, values += bytes)
      matrix_rows_add(sums[e], x += *indices++ * lanes, sparse_value(values, weights), lanes);
    for (int v = 0; v * VL < lanes; v++, y += VL < lanes ? VL : lanes)
      matrix_store_rows(y, matrix_load_rows(y, lanes) + ((sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v])), lanes);
  }
}

ERT_INLINE void matrix_kind(const ert_sparse_matrix *m, ert_weights weights) {
  if (m->deep > 1)
    m->lanes == 1 ? matrix_blocks(m, weights, true) : matrix_blocks_four(m, weights, true);
  else if (m->together > 1)
    m->lanes == 1 ? matrix_blocks(m, weights, false) : matrix_blocks_four(m, weights, false);
  else if (m->lanes <= 4)
    m->lanes == 1 ? matrix_one(m, weights) : matrix_four(m, weights);
  else
    m->lanes == 8 ? matrix_rows(m, weights, 8) : matrix_rows(m, weights, 16);
}

static void sparse_matrix(const ert_sparse_matrix *m) {
  switch (m->weights) {
    case ERT_WEIGHTS_F32:
      matrix_kind(m, ERT_WEIGHTS_F32);
      return;
    case ERT_WEIGHTS_F16:
      matrix_kind(m, ERT_WEIGHTS_F16);
      return;
    case ERT_WEIGHTS_BF16:
      matrix_kind(m, ERT_WEIGHTS_BF16);
      return;
  }
}

#endif
