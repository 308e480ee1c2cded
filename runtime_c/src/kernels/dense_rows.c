/* Products of planar rows with blocked weights, stored as planar rows. */
#include "kernels/dense_rows.h"

#include <string.h>

#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/transpose.h"

void ert_dense_pack(const float *x, int64_t step, int64_t lane, int64_t depth, int64_t columns, float *to) {
  for (; columns > 0; columns -= 16, x += 16 * lane, to += depth * 16) {
    const int64_t lanes = ert_min64(columns, 16);
    if (lanes < 16) memset(to, 0, (size_t)depth * 64);
    if (lane == 1)
      ert_copy_rows(to, 64, x, step * 4, depth, (size_t)lanes * sizeof(float));
    else if (step == 1)
      ert_transpose(to, 16, x, lane, depth, lanes, sizeof(float));
    else
      for (int64_t d = 0; d < depth; d++)
        for (int64_t i = 0; i < lanes; i++) to[d * 16 + i] = x[d * step + i * lane];
  }
}

void ert_dense_rows_run(const ert_simd *simd, const ert_dense_rows *d, const ert_finish *finish, float *tile) {
  const int64_t blocks = d->columns / 16, rest = d->columns % 16;
  const ert_span span = {.count = (size_t)d->depth};
  ert_dense dense = {
      .x = d->x,
      .x_pixel = d->x_pitch,
      .spans = &span,
      .n_spans = 1,
      .w = d->w,
      .w_block = d->w_block,
      .weights = d->weights,
      .bias = d->bias,
      .y = d->y,
      .y_pixel = d->y_pitch,
      .y_block = 16,
      .rows = 1,
      .pixels = (size_t)d->rows,
      .blocks = (size_t)blocks,
      .lo = finish->lo,
      .hi = finish->hi,
  };
  if (d->add) dense.residual = d->y;
  if (blocks > 0) simd->dense(&dense);
  if (rest > 0) {
    float *last = d->y + blocks * 16;
    if (d->add) ert_copy_rows(tile, 64, last, d->y_pitch * 4, d->rows, (size_t)rest * sizeof(float));
    dense.w = (const char *)d->w + blocks * d->w_block * ert_weights_bytes(d->weights);
    if (dense.bias) dense.bias += blocks * 16;
    dense.y = tile;
    dense.residual = d->add ? tile : NULL;
    dense.y_pixel = 16;
    dense.blocks = 1;
    simd->dense(&dense);
    ert_copy_rows(last, d->y_pitch * 4, tile, 64, d->rows, (size_t)rest * sizeof(float));
  }
  ert_finish_stored(finish, simd, d->y, 1, 0, (size_t)d->rows, d->y_pitch, (size_t)d->columns);
}
