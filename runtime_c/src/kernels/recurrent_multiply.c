/* Products of recurrent layers: dense weights times many inputs together, or slices of sparse ones times one after the other,
 * each slice in the cache until all inputs have met it. */
#include <string.h>

#include "kernels/recurrent.h"

/* Rows of weights, for n rows of inputs. */
typedef struct product {
  const float *x;
  int64_t x_pitch, n;
  const ert_recurrent_weights *weights;
  const float *bias;
  float *y;
  bool add;
} product;

static void multiply_slices(const ert_recurrent *s, const product *p, int64_t begin, int64_t end) {
  for (int64_t slice = begin / ERT_SLICE; slice * ERT_SLICE < end; slice++)
    for (int64_t i = 0; i < p->n; i++) {
      float *sums = p->y + i * s->pitch + slice * ERT_SLICE;
      if (!p->add) memset(sums, 0, ERT_SLICE * sizeof *sums);
      for (int k = 0; p->bias && k < ERT_SLICE; k++) sums[k] += p->bias[slice * ERT_SLICE + k];
      ert_slice_run(&s->slices, p->weights->slice + slice, p->x + i * p->x_pitch, sums);
    }
}

static void multiply_rows(const ert_recurrent *s, const product *p, int64_t begin, int64_t end) {
  const ert_recurrent_weights *weights = p->weights;
  if (!weights->blocks) {
    multiply_slices(s, p, begin, end);
    return;
  }
  const int64_t first = begin / 16 * 16;
  const ert_finish none = ert_finish_of((ert_activation){.kind = ERT_UNARY_IDENTITY});
  const ert_dense_rows d = {
      .x = p->x,
      .x_pitch = p->x_pitch,
      .w = weights->blocks + first * weights->depth,
      .w_block = weights->depth * 16,
      .bias = p->bias ? p->bias + first : NULL,
      .y = p->y + first,
      .y_pitch = s->pitch,
      .rows = p->n,
      .depth = weights->depth,
      .columns = (end - first + 15) / 16 * 16,
      .add = p->add,
  };
  ert_dense_rows_run(s->simd, &d, &none, NULL);
}

void ert_recurrent_multiply(const ert_recurrent *s, const ert_recurrent_band *q, const float *x, int64_t x_pitch,
                            int64_t n, const ert_recurrent_weights *weights, const float *bias, int64_t begin,
                            int64_t end, float *y, bool add) {
  const product p = {x, x_pitch, n, weights, bias, y, add};
  const int64_t h = s->hidden;
  if (s->pieces == 1)
    multiply_rows(s, &p, begin * h, end * h);
  else /* whole blocks of 16 */
    for (int64_t gate = begin; gate < end; gate++) multiply_rows(s, &p, gate * h + q->from, gate * h + q->to);
}
