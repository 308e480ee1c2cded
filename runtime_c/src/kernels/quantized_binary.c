/* quantized_binary: sums and products of pairs of bytes that stand for numbers, with broadcasting. */
#include "kernels/broadcast.h"
#include "kernels/simd/i8.h"
#include "kernels/tensor.h"

typedef struct quantized_binary_state {
  ert_walk walk; /* of the operand whose rows have one element a position, the other one and y */
  const ert_i8 *simd;
  ert_i8_binary pair; /* of these operands, in this order */
  ert_i8_form form;
  bool swapped; /* the first of them is the second input */
} quantized_binary_state;

static const char *const names[] = {"add", "mul", NULL};

static edgert_status read_pair(const ert_prepare *p, ert_i8_binary *out) {
  const int64_t *zeros;
  const float *scales;
  int64_t lo, hi;
  int kind;
  ERT_TRY(ert_choice(p, "kind", names, &kind));
  ERT_TRY(ert_ints(p, "zeros", 3, 0, UINT8_MAX, &zeros));
  ERT_TRY(ert_floats(p, "scales", 2, &scales));
  ERT_TRY(ert_int(p, "lo", 0, UINT8_MAX, &lo));
  ERT_TRY(ert_int(p, "hi", lo, UINT8_MAX, &hi));
  const float most = 4294967296.0f; /* no sum or product overflows */
  for (int k = 0; k < 2; k++)
    if (!(scales[k] <= most && scales[k] >= -most))
      return ert_reject(p, "attribute 'scales'", "numbers of at most 2^32", "%g", (double)scales[k]);
  *out = (ert_i8_binary){
      .product = kind == 1,
      .zeros = {(int32_t)zeros[0], (int32_t)zeros[1]},
      .scales = {scales[0], scales[1]},
      .lo = (float)(lo - zeros[2]),
      .hi = (float)(hi - zeros[2]),
      .zero = (int32_t)zeros[2],
  };
  return EDGERT_OK;
}

static void swap(quantized_binary_state *s) {
  const ert_i8_binary pair = s->pair;
  s->swapped = true;
  for (int k = 0; k < 2; k++) s->pair.zeros[k] = pair.zeros[1 - k], s->pair.scales[k] = pair.scales[1 - k];
  for (int i = 0; i < s->walk.rank; i++) {
    const int64_t stride = s->walk.stride[0][i];
    s->walk.stride[0][i] = s->walk.stride[1][i], s->walk.stride[1][i] = stride;
  }
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ert_allow_in_place(p, 0);
  ert_allow_in_place(p, 1);
  void *state;
  ERT_TRY(ert_state(p, sizeof(quantized_binary_state), &state));
  quantized_binary_state *s = state;
  ERT_TRY(read_pair(p, &s->pair));
  for (uint32_t k = 0; k < 2; k++) ERT_TRY(ert_expect_dtype(p, p->step->in[k], EDGERT_U8));
  ERT_TRY(ert_expect_dtype(p, p->step->out[0], EDGERT_U8));
  ert_walk *w = &s->walk;
  ERT_TRY(ert_broadcast_plan(p, 2, w));
  s->simd = ert_i8_of(p->simd);
  if (w->elements == 0) return EDGERT_OK;
  const int repeated = ert_broadcast_repeated(w), last = w->rank - 1;
  if (repeated >= 0 && w->shape[last] == 16) {
    ert_broadcast_join(w, repeated, 0);
    s->form = ERT_I8_LANES;
    if (repeated == 0) swap(s);
  } else {
    s->form = w->stride[0][last] && w->stride[1][last] ? ERT_I8_SAME : ERT_I8_ONE;
    if (w->stride[0][last] == 0) swap(s);
  }
  p->step->tasks = ert_cut_elements(w->elements, 1, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const quantized_binary_state *s = step->state;
  const ert_walk *w = &s->walk;
  const uint8_t *a = step->in[s->swapped]->data, *b = step->in[!s->swapped]->data;
  uint8_t *y = step->out[0]->data;
  ert_cursor c;
  for (int64_t left = ert_walk_part(w, step, begin, end, &c), n; left; left -= n) {
    n = ert_min64(ert_walk_left(w, &c), left);
    s->simd->binary(&s->pair, s->form, a + c.offset[0], b + c.offset[1], y + c.offset[2], (size_t)n);
    ert_walk_advance(w, &c, n);
  }
}

extern const ert_kernel ert_kernel_quantized_binary;
const ert_kernel ert_kernel_quantized_binary = {
    .name = "quantized_binary", .prepare = prepare, .run = run, .views = true};
