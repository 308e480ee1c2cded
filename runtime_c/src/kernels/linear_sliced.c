/* linear_sliced: rows of a planar input times a constant matrix whose non-zeros lie in slices of 16 columns, step by step,
 * plus bias and activation. */
#include <string.h>

#include "kernels/activation.h"
#include "kernels/partition.h"
#include "kernels/sliced.h"
#include "kernels/walk.h"

/* A task computes a row by a run of slices. */
typedef struct linear_state {
  ert_activation activation;
  ert_slices slices;
  ert_walk walk; /* over the first elements of the rows of x and y */
  int64_t columns, runs;
  int64_t ends[]; /* of the runs: slices */
} linear_state;

static edgert_status linear_prove(const ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 5, 6, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0], *bias = p->step->n_in > 5 ? p->step->in[5] : NULL;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (x->rank < 1 || y->rank < 1) return ert_reject(p, "rank of the input", "at least 1", "0");
  int64_t y_shape[ERT_MAX_RANK];
  memcpy(y_shape, x->shape, sizeof y_shape);
  const int64_t columns = y->shape[y->rank - 1];
  y_shape[x->rank - 1] = columns;
  ERT_TRY(ert_expect_shape(p, y, x->rank, y_shape));
  if (!bias) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
  return ert_expect_shape(p, bias, 1, &columns);
}

/* What a slice takes, in steps. */
static int64_t work_of(const void *of, int64_t slice) { return ert_slice_steps(of, slice) + 4; }

static edgert_status linear_prepare(ert_prepare *p) {
  ert_activation activation;
  ERT_TRY(linear_prove(p));
  ERT_TRY(ert_activation_read(p, &activation));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  const int64_t columns = y->shape[y->rank - 1], count = ert_ceil_divide(columns, ERT_SLICE);
  ert_slices slices;
  ERT_TRY(ert_slices_read(p, &p->step->in[1], count, &slices));
  ERT_TRY(ert_slices_prove(p, &slices, 0, count, x->shape[x->rank - 1]));
  if (y->elements == 0) return EDGERT_OK;
  const int64_t rows = y->elements / columns;
  int64_t steps = 0;
  for (int64_t i = 0; i < count; i++) steps += ert_slice_steps(&slices, i);
  const int64_t runs = ert_min64(ert_pieces(rows, (double)rows * (double)(steps * ERT_SLICE), p->workers), count);
  linear_state *s;
  ERT_TRY(ert_state(p, sizeof *s + (size_t)runs * sizeof *s->ends, (void **)&s));
  s->activation = activation;
  s->slices = slices;
  s->columns = columns;
  s->runs = runs;
  ert_cut_by_work(count, runs, work_of, &s->slices, s->ends);
  s->walk.operands = 2;
  for (int i = 0; i < x->rank - 1; i++)
    ert_walk_push(&s->walk, x->shape[i], (const int64_t[]){ert_stride(x, i), ert_stride(y, i)});
  ert_walk_merge(&s->walk, 0);
  p->step->tasks = rows * runs;
  return EDGERT_OK;
}

static void linear_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin == end) return; /* an empty output has no state */
  const linear_state *s = step->state;
  const ert_activation *a = &s->activation;
  const float *bias = step->n_in > 5 && step->in[5] ? step->in[5]->data : NULL;
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, first = run > 0 ? s->ends[run - 1] : 0, last = s->ends[run];
    ert_cursor c;
    ert_walk_seek(&s->walk, i / s->runs, &c);
    const float *x = (const float *)step->in[0]->data + c.offset[0];
    float *y = (float *)step->out[0]->data + c.offset[1] + first * ERT_SLICE;
    const int64_t columns = ert_min64(last * ERT_SLICE, s->columns) - first * ERT_SLICE;
    for (int64_t slice = first; slice < last; slice++) {
      const int64_t column = slice * ERT_SLICE;
      const size_t own = (size_t)ert_min64(ERT_SLICE, s->columns - column) * sizeof(float);
      float sums[ERT_SLICE] = {0};
      if (bias) memcpy(sums, bias + column, own);
      ert_slice_run(&s->slices, slice, x, sums);
      memcpy(y + column - first * ERT_SLICE, sums, own);
    }
    if (a->kind != ERT_UNARY_IDENTITY) s->slices.simd->unary(a->kind, a->alpha, a->beta, y, y, (size_t)columns);
  }
}

const ert_kernel ert_kernel_linear_sliced = {
    .name = "linear_sliced", .prepare = linear_prepare, .run = linear_run, .views = true};
