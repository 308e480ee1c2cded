/* lp_normalize: entries over the 1- or 2-norm along an axis; 0 where the norm is 0. */
#include <math.h>

#include "kernels/reduction.h"
#include "kernels/tensor.h"

enum { TILE = 256 };

typedef struct lp_state {
  ert_reduction plan;
  int64_t p;
  int64_t tile, units; /* columns of a unit */
} lp_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  bool axes[ERT_WALK_RANK] = {false};
  int64_t axis;
  void *state;
  ERT_TRY(ert_state(p, sizeof(lp_state), &state));
  lp_state *s = state;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
  ERT_TRY(ert_int_or(p, "p", 1, 2, 2, &s->p));
  if (x->elements == 0) return EDGERT_OK;
  const ert_stored from = ert_stored_of(x), to = ert_stored_of(p->step->out[0]);
  axes[axis] = true;
  ert_reduction_plan(&from, to.stride, axes, 2, &s->plan);
  s->tile = s->plan.trailing ? 1 : TILE;
  s->units = ert_walk_tiles(&s->plan.kept, s->tile);
  p->step->tasks = ert_cut(s->units, 4 * ert_min64(x->elements / s->units, INT32_MAX), p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const lp_state *s = step->state;
  const ert_walk *kept = &s->plan.kept, *w = &s->plan.folded;
  const int64_t x_row = w->stride[0][w->rank - 1], y_row = w->stride[1][w->rank - 1];
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  const int64_t last = ert_cut_at(s->units, step->tasks, end);
  ert_cursor at, c;
  ert_walk_seek_tile(kept, s->tile, unit, &at);
  for (int64_t width; unit < last; unit++, ert_walk_advance(kept, &at, width)) {
    width = ert_walk_width(kept, &at, s->tile);
    const float *x = (const float *)step->in[0]->data + at.offset[0];
    float *y = (float *)step->out[0]->data + at.offset[1];
    double norm[TILE];
    for (int64_t i = 0; i < width; i++) norm[i] = 0;
    ert_walk_start(w, &c);
    for (int64_t left = w->elements, n; left > 0; left -= n, ert_walk_advance(w, &c, n)) {
      n = ert_walk_left(w, &c);
      const float *from = x + c.offset[0];
      for (int64_t row = 0; row < n; row++, from += x_row)
        for (int64_t i = 0; i < width; i++)
          norm[i] += s->p == 1 ? fabs((double)from[i]) : (double)from[i] * (double)from[i];
    }
    for (int64_t i = 0; i < width; i++) norm[i] = s->p == 1 ? norm[i] : sqrt(norm[i]);
    for (int64_t left = w->elements, n; left > 0; left -= n, ert_walk_advance(w, &c, n)) {
      n = ert_walk_left(w, &c);
      const float *from = x + c.offset[0];
      float *to = y + c.offset[1];
      for (int64_t row = 0; row < n; row++, from += x_row, to += y_row)
        for (int64_t i = 0; i < width; i++) to[i] = norm[i] == 0 ? 0.0f : (float)((double)from[i] / norm[i]);
    }
  }
}

const ert_kernel ert_kernel_lp_normalize = {.name = "lp_normalize", .prepare = prepare, .run = run, .views = true};
