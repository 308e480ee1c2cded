/* lookup: a table's element for every byte. Any layout; bytes of padding lanes are looked up too. */
#include "kernels/simd/i8.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

typedef struct lookup_state {
  ert_walk walk; /* of x and y */
  const ert_i8 *simd;
} lookup_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ert_allow_in_place(p, 0);
  const ert_tensor *x = p->step->in[0], *table = p->step->in[1], *y = p->step->out[0];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_U8));
  ERT_TRY(ert_expect_same_type(p, x, y));
  ERT_TRY(ert_expect_dtype(p, table, EDGERT_U8));
  ERT_TRY(ert_expect_layout(p, table, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_shape(p, table, 1, (const int64_t[]){256}));
  if (x->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  void *state;
  ERT_TRY(ert_state(p, sizeof(lookup_state), &state));
  lookup_state *s = state;
  s->simd = ert_i8_of(p->simd);
  ert_walk_over(2, (const ert_tensor *[]){x, y}, &s->walk);
  p->step->tasks = ert_cut_elements(s->walk.elements, 1, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const lookup_state *s = step->state;
  const uint8_t *x = step->in[0]->data, *table = step->in[1]->data;
  uint8_t *y = step->out[0]->data;
  ert_cursor c;
  for (int64_t left = ert_walk_part(&s->walk, step, begin, end, &c), n; left; left -= n) {
    n = ert_min64(ert_walk_left(&s->walk, &c), left);
    s->simd->lookup(table, x + c.offset[0], y + c.offset[1], (size_t)n);
    ert_walk_advance(&s->walk, &c, n);
  }
}

const ert_kernel ert_kernel_lookup = {.name = "lookup", .prepare = prepare, .run = run, .views = true};
