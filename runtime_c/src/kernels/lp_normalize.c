/* lp_normalize: entries over the 1- or 2-norm along an axis; 0 where the norm is 0. */
#include <math.h>

#include "kernels/axis.h"

typedef struct lp_state {
  ert_axis axis;
  int64_t p;
} lp_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  int64_t axis;
  void *state;
  ERT_TRY(ert_state(p, sizeof(lp_state), &state));
  lp_state *s = state;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
  ERT_TRY(ert_int_or(p, "p", 1, 2, 2, &s->p));
  ert_axis_plan(p, x, (int)axis, (int)axis + 1, 4, &s->axis);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const lp_state *s = step->state;
  const ert_axis *a = &s->axis;
  begin = ert_cut_at(a->units, step->tasks, begin);
  end = ert_cut_at(a->units, step->tasks, end);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first, width = ert_axis_unit(a, unit, &first);
    const float *x = (const float *)step->in[0]->data + first;
    float *y = (float *)step->out[0]->data + first;
    double norm[ERT_AXIS_TILE] = {0};
    for (int64_t row = 0; row < a->n; row++)
      for (int64_t i = 0; i < width; i++) {
        const double v = (double)x[row * a->inner + i];
        norm[i] += s->p == 1 ? fabs(v) : v * v;
      }
    for (int64_t i = 0; i < width; i++) norm[i] = s->p == 1 ? norm[i] : sqrt(norm[i]);
    for (int64_t row = 0; row < a->n; row++)
      for (int64_t i = 0; i < width; i++) {
        const int64_t at = row * a->inner + i;
        y[at] = norm[i] == 0 ? 0.0f : (float)((double)x[at] / norm[i]);
      }
  }
}

const ert_kernel ert_kernel_lp_normalize = {.name = "lp_normalize", .prepare = prepare, .run = run};
