/* where: elements of one tensor or of another by a boolean one, with broadcasting; any element type. */
#include "kernels/broadcast.h"
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct where_state {
  ert_walk walk; /* of the condition, a, b and y */
  size_t size;   /* of an element */
} where_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 3, 3, 1, 1));
  const ert_tensor *a = p->step->in[1];
  void *state;
  ERT_TRY(ert_state(p, sizeof(where_state), &state));
  where_state *s = state;
  ERT_TRY(ert_expect_planar(p));
  ERT_TRY(ert_expect_dtype(p, p->step->in[0], EDGERT_BOOL));
  ERT_TRY(ert_expect_dtype(p, p->step->in[2], (edgert_dtype)a->dtype));
  ERT_TRY(ert_expect_dtype(p, p->step->out[0], (edgert_dtype)a->dtype));
  ERT_TRY(ert_broadcast_plan(p, 3, &s->walk));
  s->size = ert_dtype_bytes(a->dtype);
  p->step->tasks = ert_cut_elements(s->walk.elements, 1, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const where_state *s = step->state;
  const ert_walk *w = &s->walk;
  const int last = w->rank - 1;
  const int64_t by_c = w->stride[0][last], by_a = w->stride[1][last], by_b = w->stride[2][last];
  ert_cursor cursor;
  for (int64_t left = ert_walk_part(w, step, begin, end, &cursor), n; left; left -= n) {
    n = ert_min64(ert_walk_left(w, &cursor), left);
    const uint8_t *c = (const uint8_t *)step->in[0]->data + cursor.offset[0];
#define SELECT(type)                                                     \
  {                                                                      \
    const type *a = (const type *)step->in[1]->data + cursor.offset[1];  \
    const type *b = (const type *)step->in[2]->data + cursor.offset[2];  \
    type *y = (type *)step->out[0]->data + cursor.offset[3];             \
    for (int64_t i = 0; i < n; i++) {                                    \
      const type mask = (type)(0 - (ert_bits64)(c[i * by_c] != 0));      \
      y[i] = (type)((a[i * by_a] & mask) | (b[i * by_b] & (type)~mask)); \
    }                                                                    \
  }
    ERT_BY_SIZE(s->size, SELECT)
#undef SELECT
    ert_walk_advance(w, &cursor, n);
  }
}

const ert_kernel ert_kernel_where = {.name = "where", .prepare = prepare, .run = run, .views = true};
