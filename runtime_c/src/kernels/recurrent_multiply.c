/* Products of recurrent layers: dense weights times many inputs together, or slices of sparse ones times one after the other,
 * each slice in the cache until all inputs have met it. */
#include <string.h>

#include "kernels/recurrent.h"

static void multiply_slices(const ert_recurrent *s, const float *x, int64_t x_pitch, int64_t n,
                            const ert_recurrent_weights *weights, const float *bias, int64_t begin, int64_t end,
                            float *y, bool add) {
  for (int64_t slice = begin / ERT_SLICE; slice * ERT_SLICE < end; slice++)
    for (int64_t i = 0; i < n; i++) {
      float *sums = y + i * s->pitch + slice * ERT_SLICE;
      if (!add) memset(sums, 0, ERT_SLICE * sizeof *sums);
      for (int k = 0; bias && k < ERT_SLICE; k++) sums[k] += bias[slice * ERT_SLICE + k];
      ert_slice_run(&s->slices, weights->slice + slice, x + i * x_pitch, sums);
    }
}

void ert_recurrent_multiply(const ert_recurrent *s, const float *x, int64_t x_pitch, int64_t n,
                            const ert_recurrent_weights *weights, const float *bias, int64_t begin, int64_t end,
                            float *y, bool add) {
  if (!weights->blocks) {
    multiply_slices(s, x, x_pitch, n, weights, bias, begin, end, y, add);
    return;
  }
  const int64_t first = begin / 16 * 16;
  const ert_finish none = ert_finish_of((ert_activation){.kind = ERT_UNARY_IDENTITY});
  const ert_dense_rows d = {
      .x = x,
      .x_pitch = x_pitch,
      .w = weights->blocks + first * weights->depth,
      .w_block = weights->depth * 16,
      .bias = bias ? bias + first : NULL,
      .y = y + first,
      .y_pitch = s->pitch,
      .rows = n,
      .depth = weights->depth,
      .columns = (end - first + 15) / 16 * 16,
      .add = add,
  };
  ert_dense_rows_run(s->simd, &d, &none, NULL);
}
