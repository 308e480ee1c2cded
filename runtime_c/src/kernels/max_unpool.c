/* max_unpool: values scattered to their flat positions in a zeroed output; positions outside are clamped, the last of
 * equals wins. */
#include <string.h>

#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct unpool_state {
  int64_t index_shape[ERT_MAX_RANK], stride[ERT_MAX_RANK];
  int64_t places; /* product of index_shape */
  size_t size;    /* of an element */
} unpool_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *indices = p->step->in[1], *y = p->step->out[0];
  const int64_t *index_shape, *shape;
  void *state;
  ERT_TRY(ert_state(p, sizeof(unpool_state), &state));
  unpool_state *s = state;
  ERT_TRY(ert_expect_dtype(p, indices, EDGERT_I64));
  ERT_TRY(ert_expect_shape(p, indices, x->rank, x->shape));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  ERT_TRY(ert_ints(p, "shape", y->rank, 0, INT64_MAX, &shape));
  ERT_TRY(ert_expect_shape(p, y, y->rank, shape));
  ERT_TRY(ert_ints(p, "index_shape", y->rank, 0, INT64_MAX, &index_shape));
  s->size = ert_dtype_bytes(x->dtype);
  s->places = y->elements ? 1 : 0;
  int64_t stride = 1;
  for (int i = y->rank - 1; i >= 0; i--) {
    if (index_shape[i] > y->shape[i])
      return ert_reject(p, "attribute 'index_shape'", "at most the output's shape", "%lld", (long long)index_shape[i]);
    s->index_shape[i] = index_shape[i];
    s->stride[i] = stride;
    if (y->elements) stride *= y->shape[i], s->places *= index_shape[i];
  }
  if (x->elements && !s->places) return ert_reject(p, "attribute 'index_shape'", "at least one position", "none");
  p->step->tasks = 1;
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin >= end) return;
  const unpool_state *s = step->state;
  const ert_tensor *x = step->in[0], *y = step->out[0];
  const int64_t *indices = step->in[1]->data;
  if (y->elements) memset(y->data, 0, y->bytes);
  for (int64_t i = 0; i < x->elements; i++) {
    int64_t at = 0, flat = ert_clamp64(indices[i], 0, s->places - 1);
    for (int d = y->rank - 1; d >= 0; d--) {
      at += flat % s->index_shape[d] * s->stride[d];
      flat /= s->index_shape[d];
    }
#define PUT(type) ((type *)y->data)[at] = ((const type *)x->data)[i];
    ERT_BY_SIZE(s->size, PUT)
#undef PUT
  }
}

const ert_kernel ert_kernel_max_unpool = {.name = "max_unpool", .prepare = prepare, .run = run};
