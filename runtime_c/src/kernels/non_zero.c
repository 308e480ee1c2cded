/* non_zero: the coordinates of the entries that are not zero, in row-major order, and how many there are. */
#include "kernels/rows.h"
#include "kernels/tensor.h"

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 2, 2));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *indices = p->step->out[0], *count = p->step->out[1];
  const int64_t one = 1;
  ERT_TRY(ert_expect_dtype(p, indices, EDGERT_I64));
  ERT_TRY(ert_expect_dtype(p, count, EDGERT_I64));
  ERT_TRY(ert_expect_shape(p, indices, 2, (const int64_t[]){x->rank, x->elements}));
  ERT_TRY(ert_expect_shape(p, count, 1, &one));
  p->step->tasks = 1; /* where an entry goes depends on how many came before */
  return EDGERT_OK;
}

static bool is_zero(const ert_tensor *x, int64_t i) {
  switch (ert_dtype_bytes(x->dtype)) {
    case 1:
      return ((const ert_bits8 *)x->data)[i] == 0;
    case 2:
      return ((const ert_bits16 *)x->data)[i] == 0;
    case 8:
      return ((const ert_bits64 *)x->data)[i] == 0;
    default:
      break;
  }
  uint32_t bits = ((const ert_bits32 *)x->data)[i];
  return (x->dtype == EDGERT_F32 ? bits << 1 : bits) == 0; /* -0 is zero */
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin >= end) return;
  const ert_tensor *x = step->in[0];
  int64_t *indices = step->out[0]->data, n = 0, position[ERT_MAX_RANK] = {0};
  for (int64_t i = 0; i < x->elements; ++i) {
    if (!is_zero(x, i)) {
      for (int d = 0; d < x->rank; ++d) indices[d * x->elements + n] = position[d];
      ++n;
    }
    for (int d = x->rank - 1; d >= 0 && ++position[d] == x->shape[d]; --d) position[d] = 0;
  }
  for (int d = 0; d < x->rank; ++d) {
    for (int64_t i = n; i < x->elements; ++i) indices[d * x->elements + i] = 0;
  }
  *(int64_t *)step->out[1]->data = n;
}

const ert_kernel ert_kernel_non_zero = {.name = "non_zero", .prepare = prepare, .run = run};
