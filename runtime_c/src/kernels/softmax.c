/* softmax: its logarithm and hardmax too, along a run of neighbouring axes taken together. */
#include "kernels/axis.h"
#include "kernels/reduction.h"
#include "kernels/simd/simd.h"

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };

typedef struct softmax_state {
  ert_axis axis;
  const ert_simd *simd;
  int kind;
} softmax_state;

static edgert_status prepare(ert_prepare *p) {
  static const char *const kinds[] = {"softmax", "log_softmax", "hardmax", NULL};
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ert_allow_in_place(p, 0);
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  bool axes[ERT_MAX_RANK];
  void *state;
  ERT_TRY(ert_state(p, sizeof(softmax_state), &state));
  softmax_state *s = state;
  s->simd = p->simd;
  ERT_TRY(ert_choice(p, "kind", kinds, &s->kind));
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  ERT_TRY(ert_axes(p, x->rank, axes));
  int first = 0, last, more;
  while (first < x->rank && !axes[first]) first++;
  for (last = first; last < x->rank && axes[last];) last++;
  for (more = last; more < x->rank && !axes[more];) more++;
  if (more < x->rank) return ert_reject(p, "attribute 'axes'", "neighbouring dimensions", "others");
  ert_axis_plan(p, x, first, last, 4, &s->axis);
  return EDGERT_OK;
}

/* 1 at the first largest value, a NaN counting as larger than all. */
static void hardmax(const float *x, float *y, int64_t n, int64_t stride) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    const float v = x[i * stride], top = x[best * stride];
    if (v > top || (v != v && top == top)) best = i;
  }
  for (int64_t i = 0; i < n; i++) y[i * stride] = i == best ? 1.0f : 0.0f;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const softmax_state *s = step->state;
  const ert_axis *a = &s->axis;
  begin = ert_cut_at(a->units, step->tasks, begin);
  end = ert_cut_at(a->units, step->tasks, end);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first, width = ert_axis_unit(a, unit, &first);
    const float *x = (const float *)step->in[0]->data + first;
    float *y = (float *)step->out[0]->data + first;
    const bool log = s->kind == LOG_SOFTMAX;
    if (s->kind == HARDMAX)
      for (int64_t i = 0; i < width; i++) hardmax(x + i, y + i, a->n, a->inner);
    else if (a->inner == 1)
      s->simd->softmax_row(log, x, y, (size_t)a->n);
    else
      s->simd->softmax_columns(log, x, y, (size_t)a->n, (ptrdiff_t)a->inner, (size_t)width);
  }
}

const ert_kernel ert_kernel_softmax = {.name = "softmax", .prepare = prepare, .run = run};
