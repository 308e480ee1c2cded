/* Products of planar rows with blocked weights, stored as planar rows: what linear, matmul and attention share. */
#ifndef ERT_KERNELS_DENSE_ROWS_H
#define ERT_KERNELS_DENSE_ROWS_H

#include "kernels/activation.h"
#include "kernels/simd/simd.h"

/* y[r][c] = finish(x[r] . w[c] (+ bias[c]) (+ y[r][c] if `add`)) for the columns of some blocks of 16. */
typedef struct ert_dense_rows {
  const float *x; /* rows of `depth` inputs, `x_pitch` floats apart */
  int64_t x_pitch;
  const void *w; /* [depth][16] of the first block; blocks `w_block` weights apart */
  int64_t w_block;
  ert_weights weights;
  const float *bias; /* [blocks][16] of the first block, or NULL */
  float *y;          /* row 0, first column of the first block; rows `y_pitch` floats apart */
  int64_t y_pitch;
  int64_t rows, depth, columns; /* columns need not be a multiple of 16; the others are neither read nor written */
  bool add;
} ert_dense_rows;

/* A matrix of floats as such blocks [depth][16], lanes past the last column zero: `step` floats lie between its rows, `lane`
 * between its columns. */
void ert_dense_pack(const float *x, int64_t step, int64_t lane, int64_t depth, int64_t columns, float *to);

/* `tile` is scratch for rows * 16 floats, needed if columns is no multiple of 16. */
void ert_dense_rows_run(const ert_simd *simd, const ert_dense_rows *d, const ert_finish *finish, float *tile);

/* Whether rows `pitch` floats apart fall into so few cache sets that reading several at once evicts them. */
enum { ERT_COLLIDING = 512 };
static inline bool ert_rows_collide(int64_t rows, int64_t pitch) { return rows > 1 && pitch % ERT_COLLIDING == 0; }

/* A pitch for copies of rows of `depth` floats that does not collide: an odd number of cache lines. */
static inline int64_t ert_spread_pitch(int64_t depth) { return (depth + 15) / 16 / 2 * 32 + 16; }

#endif
