/* binary: a function of two variables on every pair of elements, with broadcasting and an optional activation. */
#include <string.h>

#include "kernels/binary_integer.h"
#include "kernels/binary_kinds.h"
#include "kernels/broadcast.h"
#include "kernels/dtypes.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/unary_kinds.h"

enum {
  CHUNK = 4096, /* elements computed before the activation passes over them; a multiple of 16 */
  SHORT = 64,   /* rows shorter than this are repeated into a tile */
  TILE = 1024,  /* elements of a tile, at least */
};

typedef struct binary_state {
  ert_walk walk;      /* of a, b and y */
  ert_binary_row row; /* NULL: float32 to float32 */
  const ert_simd *simd;
  ert_activation activation;
  size_t in_size, out_size; /* of an element */
  int kind;
  int form;          /* float32 only */
  int repeated;      /* operand whose short row is repeated in scratch; -1: none */
  int64_t period;    /* elements of that row */
  int64_t tile_size; /* a multiple of period */
} binary_state;

static const char *const names[] = {
#define X(upper, lower, types) lower,
    ERT_BINARY_KIND_LIST(X)
#undef X
        NULL};

static const char *const types[] = {
#define X(upper, lower, types) types,
    ERT_BINARY_KIND_LIST(X)
#undef X
};

static bool gives_bool(int kind) { return kind >= ERT_BINARY_EQUAL && kind <= ERT_BINARY_GREATER_EQUAL; }

/* When one operand is a row that repeats while the other moves on, the two inner dimensions become one long row. */
static void plan_repetition(binary_state *s) {
  ert_walk *w = &s->walk;
  s->repeated = -1;
  const int k = ert_broadcast_repeated(w), outer = w->rank - 2;
  if (k < 0) return;
  const int64_t n = w->shape[outer + 1];
  bool lanes = n == 16 && !s->row, moves = false;
  for (int i = 0; i < outer; i++) moves |= w->stride[k][i] != 0;
  if (!lanes && (moves || n >= SHORT)) return;
  if (lanes) {
    s->form = k ? ERT_FORM_B_LANES : ERT_FORM_A_LANES;
  } else {
    s->repeated = k;
    s->period = n;
    s->tile_size = n * ((TILE + n - 1) / n);
  }
  ert_broadcast_join(w, k, lanes ? 0 : 1);
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ert_allow_in_place(p, 0);
  ert_allow_in_place(p, 1);
  const ert_tensor *a = p->step->in[0], *b = p->step->in[1], *y = p->step->out[0];
  void *state;
  ERT_TRY(ert_state(p, sizeof(binary_state), &state));
  binary_state *s = state;
  ERT_TRY(ert_choice(p, "kind", names, &s->kind));
  ERT_TRY(ert_expect_dtype(p, b, (edgert_dtype)a->dtype));
  ERT_TRY(ert_expect_dtype(p, y, gives_bool(s->kind) ? EDGERT_BOOL : (edgert_dtype)a->dtype));
  if (!strchr(types[s->kind], ert_dtype_letter(a->dtype)))
    return ert_reject(p, "element type", "one that the function takes", "%s of type %d", names[s->kind], a->dtype);
  ERT_TRY(ert_activation_read(p, &s->activation));
  if (s->activation.kind != ERT_UNARY_IDENTITY) ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (y->layout != ERT_LAYOUT_PLANAR) ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  ERT_TRY(ert_broadcast_plan(p, 2, &s->walk));

  s->simd = p->simd;
  s->in_size = ert_dtype_bytes(a->dtype);
  s->out_size = ert_dtype_bytes(y->dtype);
  s->row = a->dtype == EDGERT_F32 && !gives_bool(s->kind) ? NULL : ert_binary_row_find(s->kind, a->dtype);
  const ert_walk *w = &s->walk;
  int last = w->rank - 1;
  s->form = w->stride[0][last] == 0 ? ERT_FORM_A_ONE : w->stride[1][last] == 0 ? ERT_FORM_B_ONE : ERT_FORM_SAME;
  plan_repetition(s);
  if (s->repeated >= 0) p->step->scratch_bytes = (size_t)s->tile_size * s->in_size;

  const bool remainder = s->kind == ERT_BINARY_MOD || s->kind == ERT_BINARY_FMOD;
  p->step->tasks = ert_cut_elements(w->elements, remainder ? 30 : s->kind == ERT_BINARY_POW ? 6 : 1, p->workers);
  return EDGERT_OK;
}

/* The repeated operand's row, tile_size elements long. */
static const char *make_tile(const binary_state *s, const void *from, char *tile) {
  size_t row = (size_t)s->period * s->in_size, bytes = (size_t)s->tile_size * s->in_size;
  for (size_t at = 0; at < bytes; at += row) memcpy(tile + at, from, row);
  return tile;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const binary_state *s = step->state;
  const ert_walk *w = &s->walk;
  const int last = w->rank - 1;
  const char *in[2] = {step->in[0]->data, step->in[1]->data};
  char *y = step->out[0]->data;
  ert_cursor c;
  int64_t left = ert_walk_part(w, step, begin, end, &c);
  if (!left) return;
  if (s->repeated >= 0) in[s->repeated] = make_tile(s, in[s->repeated], scratch);

  while (left) {
    const int64_t phase = s->repeated >= 0 ? c.index[last] % s->period : 0;
    int64_t n = ert_min64(ert_min64(ert_walk_left(w, &c), left), CHUNK);
    const char *operand[2];
    for (int k = 0; k < 2; k++) operand[k] = in[k] + (size_t)(k == s->repeated ? phase : c.offset[k]) * s->in_size;
    if (s->repeated >= 0) n = ert_min64(n, s->tile_size - phase);
    if (s->row) {
      s->row(operand[0], operand[1], y + (size_t)c.offset[2] * s->out_size, (size_t)n, (size_t)w->stride[0][last],
             (size_t)w->stride[1][last]);
    } else {
      float *to = (float *)(void *)y + c.offset[2];
      s->simd->binary(s->kind, s->form, (const void *)operand[0], (const void *)operand[1], to, (size_t)n);
      if (s->activation.kind != ERT_UNARY_IDENTITY)
        s->simd->unary(s->activation.kind, s->activation.alpha, s->activation.beta, to, to, (size_t)n);
    }
    ert_walk_advance(w, &c, n);
    left -= n;
  }
}

const ert_kernel ert_kernel_binary = {.name = "binary", .prepare = prepare, .run = run, .views = true};
