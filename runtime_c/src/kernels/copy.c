/* copy: the elements of the input that a strided walk visits; what transposes, slices, broadcasts and tilings become. */
#include "kernels/strided.h"
#include "kernels/tensor.h"

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));

  const ert_attribute *found = ert_attribute_find(p, "shape");
  uint32_t rank = found ? found->n_ints : 0;
  if (rank > ERT_STRIDED_DIMENSIONS) return ert_reject(p, "dimensions of shape", "at most 16", "%u", rank);
  const int64_t *shape, *strides;
  int64_t offset;
  ERT_TRY(ert_ints(p, "shape", rank, 0, INT64_MAX, &shape));
  ERT_TRY(ert_ints(p, "strides", rank, INT64_MIN, INT64_MAX, &strides));
  ERT_TRY(ert_int(p, "offset", 0, INT64_MAX, &offset));

  int64_t elements = y->elements;
  uint32_t zeros = 0;
  int64_t product = 1;
  bool overflow = false;
  for (uint32_t i = 0; i < rank; ++i) {
    zeros += shape[i] == 0;
    overflow |= __builtin_mul_overflow(product, shape[i] ? shape[i] : 1, &product);
  }
  if (overflow || (zeros ? 0 : product) != elements)
    return ert_reject(p, "product of shape", "the number of elements of the output", "%lld elements",
                      (long long)elements);

  void *state;
  ERT_TRY(ert_state(p, sizeof(ert_strided), &state));
  ert_strided *plan = state;
  const ert_strided_walk walk = {.rank = (int)rank, .shape = shape, .strides = strides, .offset = offset};
  ERT_TRY(ert_strided_plan(p, x, &walk, y, plan));
  p->step->tasks = ert_cut(plan->units, plan->units ? elements / plan->units : 0, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const ert_strided *plan = step->state;
  ert_strided_run(plan, step->out[0]->data, step->in[0]->data, ert_cut_at(plan->units, step->tasks, begin),
                  ert_cut_at(plan->units, step->tasks, end));
}

const ert_kernel ert_kernel_copy = {.name = "copy", .prepare = prepare, .run = run, .views = true};
