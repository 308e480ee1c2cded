/* compress: the slices along an axis (or the elements) whose condition is true, moved together, and how many there are. */
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct compress_state {
  int64_t outer, n, inner; /* the input as [outer, n, inner] */
  int64_t room;            /* slices of the output along the axis */
  int64_t conditions;      /* of the first slices; the rest is dropped */
} compress_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 2, 2));
  ERT_TRY(ert_expect_planar(p));
  ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *condition = step->in[1], *y = step->out[0], *count = step->out[1];
  const int64_t one = 1;
  ERT_TRY(ert_expect_dtype(p, condition, EDGERT_BOOL));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  ERT_TRY(ert_expect_dtype(p, count, EDGERT_I64));
  ERT_TRY(ert_expect_shape(p, count, 1, &one));
  if (condition->rank != 1) return ert_reject(p, "rank of the condition", "1", "%d", condition->rank);

  compress_state s = {.outer = 1, .n = x->elements, .inner = 1};
  int rank = 1;
  int64_t axis = 0, shape[ERT_MAX_RANK] = {0};
  if (ert_attribute_find(p, "axis")) {
    if (x->rank == 0) return ert_reject(p, "rank", "at least 1 with an axis", "0");
    ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
    rank = x->rank;
    for (int i = 0; i < rank; ++i) shape[i] = x->shape[i];
    s.outer = ert_extent(x, 0, (int)axis);
    s.n = x->shape[axis];
    s.inner = ert_extent(x, (int)axis + 1, rank);
  }
  s.conditions = ert_min64(condition->shape[0], s.n);
  s.room = y->rank == rank ? y->shape[axis] : 0;
  if (s.room < s.conditions)
    return ert_reject(p, "size of the output", "room for every slice that has a condition", "%lld slices",
                      (long long)s.room);
  shape[axis] = s.room;
  ERT_TRY(ert_expect_shape(p, y, (uint32_t)rank, shape));
  if (y->elements == 0 || x->elements == 0) s.outer = 0;

  void *memory;
  ERT_TRY(ert_state(p, sizeof s, &memory));
  *(compress_state *)memory = s;
  step->tasks = ert_max64(ert_cut(s.outer, s.outer ? y->elements / s.outer : 0, p->workers), 1);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const compress_state *s = step->state;
  const uint8_t *condition = step->in[1]->data;
  const size_t slice = (size_t)s->inner * ert_dtype_bytes(step->in[0]->dtype);
  const int64_t stop = ert_cut_at(s->outer, step->tasks, end);
  for (int64_t outer = ert_cut_at(s->outer, step->tasks, begin); outer < stop; ++outer) {
    const char *x = (const char *)step->in[0]->data + (size_t)(outer * s->n) * slice;
    char *y = (char *)step->out[0]->data + (size_t)(outer * s->room) * slice;
    char *y_end = y + (size_t)s->room * slice;
    for (int64_t i = 0; i < s->conditions; ++i, x += slice) {
      if (!condition[i]) continue;
      ert_copy_run(y, x, slice);
      y += slice;
    }
    memset(y, 0, (size_t)(y_end - y));
  }
  if (begin == 0 && end > 0) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->conditions; ++i) count += condition[i] != 0;
    *(int64_t *)step->out[1]->data = count;
    if (s->outer == 0 && step->out[0]->bytes) memset(step->out[0]->data, 0, step->out[0]->bytes);
  }
}

const ert_kernel ert_kernel_compress = {.name = "compress", .prepare = prepare, .run = run};
