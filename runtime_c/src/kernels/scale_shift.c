/* scale_shift: x * scale[c] + shift[c] along axis 1, with an optional activation; planar or blocks of 16. */
#include <string.h>

#include "kernels/activation.h"
#include "kernels/binary_kinds.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

enum {
  CHUNK = 4096, /* elements computed before the activation passes over them; a multiple of 16 */
};

typedef struct scale_shift_state {
  const ert_simd *simd;
  ert_finish finish;
  ert_walk walk; /* of x and y */
  int64_t inner; /* elements in a run that shares its parameters */
  int64_t runs;  /* before the parameters repeat */
  int64_t step;  /* parameters of a run */
  int64_t channels;
  int form;
} scale_shift_state;

/* The first C floats are the same in both layouts. */
static edgert_status check_parameter(const ert_prepare *p, const ert_tensor *t) {
  ERT_TRY(ert_expect_dtype(p, t, EDGERT_F32));
  if (t->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_PLANAR));
  return ert_expect_shape(p, t, 1, &p->step->in[0]->shape[1]);
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 3, 3, 1, 1));
  ert_allow_in_place(p, 0);
  const ert_tensor *x = p->step->in[0];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  if (x->rank < 2) return ert_reject(p, "rank", "2 or more", "%d", x->rank);
  if (x->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(check_parameter(p, p->step->in[1]));
  ERT_TRY(check_parameter(p, p->step->in[2]));
  void *state;
  ERT_TRY(ert_state(p, sizeof(scale_shift_state), &state));
  scale_shift_state *s = state;
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  s->finish = ert_finish_of(activation);
  s->simd = p->simd;
  if (x->elements == 0) return EDGERT_OK;

  const int64_t pixels = ert_extent(x, 2, x->rank);
  s->channels = x->shape[1];
  ert_walk_over(2, (const ert_tensor *[]){x, p->step->out[0]}, &s->walk);
  if (x->layout == ERT_LAYOUT_BLOCK16) {
    s->form = ERT_FORM_B_LANES, s->inner = pixels * 16, s->runs = (x->shape[1] + 15) / 16, s->step = 16;
  } else if (pixels == 1) {
    s->form = ERT_FORM_SAME, s->inner = x->shape[1], s->runs = 1, s->step = 0;
  } else {
    s->form = ERT_FORM_B_ONE, s->inner = pixels, s->runs = x->shape[1], s->step = 1;
  }
  p->step->tasks = ert_cut_elements(s->walk.elements, 1, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const scale_shift_state *s = step->state;
  const float *x = step->in[0]->data;
  float *y = step->out[0]->data;
  int64_t at = ert_cut_element_at(s->walk.elements, step->tasks, begin);
  const int64_t stop = ert_cut_element_at(s->walk.elements, step->tasks, end);
  if (at >= stop) return;
  const ert_activation *a = &s->finish.activation;
  int64_t i = at % s->inner, index = at / s->inner % s->runs; /* within a run, and which one */
  ert_cursor c;
  ert_walk_seek(&s->walk, at, &c);
  while (at < stop) {
    const int64_t run = ert_min64(s->inner - i, ert_walk_left(&s->walk, &c));
    const int64_t n = ert_min64(ert_min64(run, stop - at), CHUNK);
    const int64_t parameter = s->form == ERT_FORM_SAME ? i : index * s->step;
    const float *scale = (const float *)step->in[1]->data + parameter;
    const float *shift = (const float *)step->in[2]->data + parameter;
    float lanes[2][16];
    if (s->form == ERT_FORM_B_LANES) {
      const size_t bytes = (size_t)ert_min64(16, s->channels - parameter) * sizeof(float);
      memset(lanes, 0, sizeof lanes);
      scale = memcpy(lanes[0], scale, bytes);
      shift = memcpy(lanes[1], shift, bytes);
    }
    float *to = y + c.offset[1];
    s->simd->affine(s->form, x + c.offset[0], scale, shift, s->finish.lo, s->finish.hi, to, (size_t)n);
    if (s->finish.function) s->simd->unary(a->kind, a->alpha, a->beta, to, to, (size_t)n);
    ert_walk_advance(&s->walk, &c, n);
    at += n, i += n;
    if (i == s->inner) i = 0, index = index + 1 == s->runs ? 0 : index + 1;
  }
}

const ert_kernel ert_kernel_scale_shift = {.name = "scale_shift", .prepare = prepare, .run = run, .views = true};
