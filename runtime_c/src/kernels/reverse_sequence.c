/* reverse_sequence: the first entries of every sequence of a batch in reverse order, the rest as they are. */
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct reverse_state {
  int64_t units, inner; /* dimensions 0 and 1 together; elements of an entry */
  int batch_axis;
} reverse_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *lengths = p->step->in[1];
  ERT_TRY(ert_expect_same_type(p, p->step->out[0], x));
  ERT_TRY(ert_expect_dtype(p, lengths, EDGERT_I64));
  if (x->rank < 2) return ert_reject(p, "rank", "at least 2", "%d", x->rank);
  int64_t batch_axis, time_axis;
  ERT_TRY(ert_int(p, "batch_axis", 0, 1, &batch_axis));
  ERT_TRY(ert_int(p, "time_axis", 1 - batch_axis, 1 - batch_axis, &time_axis));
  ERT_TRY(ert_expect_shape(p, lengths, 1, &x->shape[batch_axis]));
  if (x->elements == 0) return EDGERT_OK;
  void *memory;
  ERT_TRY(ert_state(p, sizeof(reverse_state), &memory));
  reverse_state *s = memory;
  *s = (reverse_state){
      .units = x->shape[0] * x->shape[1], .inner = ert_extent(x, 2, x->rank), .batch_axis = (int)batch_axis};
  p->step->tasks = ert_cut(s->units, s->inner, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const reverse_state *s = step->state;
  if (step->tasks == 0) return;
  const ert_tensor *x = step->in[0];
  const int64_t *lengths = step->in[1]->data;
  const size_t bytes = (size_t)s->inner * ert_dtype_bytes(x->dtype);
  const int64_t columns = x->shape[1], stop = ert_cut_at(s->units, step->tasks, end);
  for (int64_t unit = ert_cut_at(s->units, step->tasks, begin); unit < stop; ++unit) {
    int64_t row = unit / columns, column = unit % columns;
    int64_t time = s->batch_axis ? row : column, length = lengths[s->batch_axis ? column : row];
    length = ert_clamp64(length, 0, x->shape[1 - s->batch_axis]);
    int64_t from = time < length ? length - 1 - time : time;
    int64_t source = s->batch_axis ? from * columns + column : row * columns + from;
    ert_copy_run((char *)step->out[0]->data + (size_t)unit * bytes, (const char *)x->data + (size_t)source * bytes,
                 bytes);
  }
}

const ert_kernel ert_kernel_reverse_sequence = {.name = "reverse_sequence", .prepare = prepare, .run = run};
