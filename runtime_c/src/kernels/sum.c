/* sum: inputs of one type added up in their order, then an optional activation; how partial sums meet. */
#include "kernels/binary_kinds.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/unary_kinds.h"
#include "kernels/walk.h"

enum { CHUNK = 4096 }; /* elements of the output that stay in the cache while all inputs are added */

typedef struct sum_state {
  const ert_simd *simd;
  ert_activation activation;
  int64_t elements;
  ert_walk walks[]; /* of the output and each input */
} sum_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, UINT32_MAX, 1, 1));
  ert_allow_in_place(p, 0);
  const ert_step *step = p->step;
  const ert_tensor *y = step->out[0];
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (y->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  for (uint32_t i = 0; i < step->n_in; i++) {
    if (!step->in[i]) return ert_reject(p, "input", "a tensor", "none as input %u", i);
    ERT_TRY(ert_expect_same_type(p, y, step->in[i]));
  }
  void *state;
  ERT_TRY(ert_state(p, sizeof(sum_state) + step->n_in * sizeof(ert_walk), &state));
  sum_state *s = state;
  ERT_TRY(ert_activation_read(p, &s->activation));
  s->simd = p->simd;
  for (uint32_t i = 0; i < step->n_in; i++) ert_walk_over(2, (const ert_tensor *[]){y, step->in[i]}, &s->walks[i]);
  s->elements = s->walks[0].elements;
  p->step->tasks = ert_cut_elements(s->elements, step->n_in, p->workers);
  return EDGERT_OK;
}

/* Elements [at, at + n) of y become those of x, or grow by them, and are finished if x is the last input. */
static void add(const sum_state *s, const ert_walk *w, bool first, bool last, float *y, const float *x, int64_t at,
                int64_t n) {
  const ert_activation *a = &s->activation;
  ert_cursor c;
  ert_walk_seek(w, at, &c);
  for (int64_t run; n > 0; n -= run, ert_walk_advance(w, &c, run)) {
    run = ert_min64(ert_walk_left(w, &c), n);
    float *to = y + c.offset[0];
    const float *from = x + c.offset[1];
    if (first)
      s->simd->unary(ERT_UNARY_IDENTITY, 0, 0, from, to, (size_t)run);
    else
      s->simd->binary(ERT_BINARY_ADD, ERT_FORM_SAME, to, from, to, (size_t)run);
    if (last && a->kind != ERT_UNARY_IDENTITY) s->simd->unary(a->kind, a->alpha, a->beta, to, to, (size_t)run);
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const sum_state *s = step->state;
  int64_t at = ert_cut_element_at(s->elements, step->tasks, begin);
  const int64_t stop = ert_cut_element_at(s->elements, step->tasks, end);
  for (int64_t n; at < stop; at += n) {
    n = ert_min64(stop - at, CHUNK);
    for (uint32_t i = 0; i < step->n_in; i++)
      add(s, &s->walks[i], i == 0, i + 1 == step->n_in, step->out[0]->data, step->in[i]->data, at, n);
  }
}

const ert_kernel ert_kernel_sum = {.name = "sum", .prepare = prepare, .run = run, .views = true};
