/* linear_sliced: rows of a planar input times a constant matrix whose non-zeros lie in slices of 16 columns, step by step,
 * plus bias and activation. */
#include <string.h>

#include "kernels/linear_rows.h"
#include "kernels/partition.h"
#include "kernels/sliced.h"

/* A task computes a row by a run of slices. */
typedef struct linear_state {
  ert_linear_rows r;
  ert_slices slices;
  int64_t runs;
  int64_t ends[]; /* of the runs: slices */
} linear_state;

/* What a slice takes, in steps. */
static int64_t work_of(const void *of, int64_t slice) { return ert_slice_steps(of, slice) + 4; }

static edgert_status linear_prepare(ert_prepare *p) {
  ert_linear_rows r;
  ERT_TRY(ert_linear_rows_read(p, 4, &r));
  const int64_t count = ert_ceil_divide(r.columns, ERT_SLICE);
  ert_slices slices;
  ERT_TRY(ert_slices_read(p, &p->step->in[1], count, &slices));
  ERT_TRY(ert_slices_prove(p, &slices, 0, count, r.depth));
  if (r.rows == 0) return EDGERT_OK;
  int64_t steps = 0;
  for (int64_t i = 0; i < count; i++) steps += ert_slice_steps(&slices, i);
  const int64_t runs = ert_min64(ert_pieces(r.rows, (double)r.rows * (double)(steps * ERT_SLICE), p->workers), count);
  linear_state *s;
  ERT_TRY(ert_state(p, sizeof *s + (size_t)runs * sizeof *s->ends, (void **)&s));
  s->r = r;
  s->slices = slices;
  s->runs = runs;
  ert_cut_by_work(count, runs, work_of, &s->slices, s->ends);
  p->step->tasks = r.rows * runs;
  return EDGERT_OK;
}

static void linear_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin == end) return; /* an empty output has no state */
  const linear_state *s = step->state;
  const float *bias = ert_linear_bias(step, &s->r);
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, first = run > 0 ? s->ends[run - 1] : 0, last = s->ends[run];
    ert_cursor c;
    ert_walk_seek(&s->r.walk, i / s->runs, &c);
    const float *x = (const float *)step->in[0]->data + c.offset[0];
    float *y = (float *)step->out[0]->data + c.offset[1] + first * ERT_SLICE;
    const int64_t columns = ert_min64(last * ERT_SLICE, s->r.columns) - first * ERT_SLICE;
    for (int64_t slice = first; slice < last; slice++) {
      const int64_t column = slice * ERT_SLICE;
      const size_t own = (size_t)ert_min64(ERT_SLICE, s->r.columns - column) * sizeof(float);
      float sums[ERT_SLICE] = {0};
      if (bias) memcpy(sums, bias + column, own);
      ert_slice_run(&s->slices, slice, x, sums);
      memcpy(y + column - first * ERT_SLICE, sums, own);
    }
    ert_linear_activate(&s->r, s->slices.simd, y, columns);
  }
}

const ert_kernel ert_kernel_linear_sliced = {
    .name = "linear_sliced", .prepare = linear_prepare, .run = linear_run, .views = true};
