/* Products of two planar matrices: the columns of the second are packed into scratch, some blocks of 16 at a time, unless
 * the first is a row or the second a column. */
#ifndef ERT_KERNELS_GEMM_H
#define ERT_KERNELS_GEMM_H

#include "kernels/dense_rows.h"

/* y[r][c] = finish(a[r] . column c of b (+ y[r][c] if `add`)); pitches in floats. */
typedef struct ert_gemm {
  const float *a; /* [rows][depth] */
  int64_t a_pitch;
  const float *b; /* [depth][columns], or [columns][depth] if `transposed` */
  int64_t b_pitch;
  float *y; /* [rows][columns] */
  int64_t y_pitch;
  int64_t rows, depth, columns;
  int64_t group; /* columns of b packed at a time, from ert_gemm_group */
  bool transposed, add;
  bool dots; /* a last column of b that is alone in its block of 16 is multiplied by dot products */
} ert_gemm;

/* Blocks of 16 columns that the inner loop takes together; a cut between tasks had best be a multiple. */
int64_t ert_gemm_unit(int64_t rows);

/* How many columns to pack at a time: a multiple of 16. */
int64_t ert_gemm_group(int64_t rows, int64_t depth, int64_t columns);

/* Scratch in floats for up to `rows` rows: packed columns, and a copy of a if its rows collide in the cache; false if it is
 * more than memory can have. */
bool ert_gemm_scratch(int64_t rows, int64_t depth, int64_t a_pitch, int64_t group, size_t *floats);

void ert_gemm_run(const ert_simd *simd, const ert_gemm *g, const ert_finish *finish, float *scratch);

#endif
