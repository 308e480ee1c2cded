/* trilu: the upper or lower triangle of the last two dimensions, zero elsewhere. */
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct trilu_state {
  int64_t rows, height, width, k;
  bool upper;
} trilu_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  ERT_TRY(ert_expect_same_type(p, p->step->out[0], x));
  if (x->rank < 2) return ert_reject(p, "rank", "at least 2", "%d", x->rank);
  int64_t upper, k;
  ERT_TRY(ert_int(p, "upper", 0, 1, &upper));
  ERT_TRY(ert_int_or(p, "k", INT64_MIN, INT64_MAX, 0, &k));
  if (x->elements == 0) return EDGERT_OK;
  void *memory;
  ERT_TRY(ert_state(p, sizeof(trilu_state), &memory));
  trilu_state *s = memory;
  s->height = x->shape[x->rank - 2];
  s->width = x->shape[x->rank - 1];
  s->rows = x->elements / s->width;
  s->k = ert_clamp64(k, -s->height, s->width);
  s->upper = upper;
  p->step->tasks = ert_cut(s->rows, s->width, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const trilu_state *s = step->state;
  if (step->tasks == 0) return;
  const size_t size = ert_dtype_bytes(step->in[0]->dtype), row_bytes = (size_t)s->width * size;
  const int64_t stop = ert_cut_at(s->rows, step->tasks, end);
  for (int64_t row = ert_cut_at(s->rows, step->tasks, begin); row < stop; ++row) {
    /* Columns from `diagonal` on belong to the upper triangle, columns before `diagonal + 1` to the lower one. */
    int64_t diagonal = row % s->height + s->k;
    size_t split = (size_t)ert_clamp64(s->upper ? diagonal : diagonal + 1, 0, s->width) * size;
    size_t from = s->upper ? split : 0, to = s->upper ? row_bytes : split;
    const char *x = (const char *)step->in[0]->data + (size_t)row * row_bytes;
    char *y = (char *)step->out[0]->data + (size_t)row * row_bytes;
    memset(y, 0, from);
    memcpy(y + from, x + from, to - from);
    memset(y + to, 0, row_bytes - to);
  }
}

const ert_kernel ert_kernel_trilu = {.name = "trilu", .prepare = prepare, .run = run};
