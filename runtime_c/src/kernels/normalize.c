/* normalize: zero mean and unit variance, or unit mean square, over any axes. Two passes; sums in float64. */
#include <math.h>

#include "kernels/reduction.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

enum { TILE = 256, RUN = 4096 /* floats added in float32 before float64 takes over */ };

typedef struct normalize_state {
  ert_reduction plan;
  const ert_simd *simd;
  double epsilon;
  int64_t tile, units; /* columns of a unit */
  bool rms;
} normalize_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ert_allow_in_place(p, 0);
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  bool axes[ERT_WALK_RANK];
  float epsilon;
  int64_t rms;
  void *state;
  ERT_TRY(ert_state(p, sizeof(normalize_state), &state));
  normalize_state *s = state;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  ERT_TRY(ert_axes(p, x->rank, axes));
  ERT_TRY(ert_float_or(p, "epsilon", 0, &epsilon));
  ERT_TRY(ert_int_or(p, "rms", 0, 1, 0, &rms));
  s->simd = p->simd;
  s->epsilon = (double)epsilon;
  s->rms = rms == 1;
  if (x->elements == 0) return EDGERT_OK;
  const ert_stored from = ert_stored_of(x), to = ert_stored_of(p->step->out[0]);
  ert_reduction_plan(&from, to.stride, axes, 2, &s->plan);
  s->tile = s->plan.trailing ? 1 : TILE;
  s->units = ert_walk_tiles(&s->plan.kept, s->tile);
  if (s->plan.trailing) p->step->scratch_bytes = RUN * sizeof(float);
  p->step->tasks = ert_cut(s->units, 3 * ert_min64(x->elements / s->units, INT32_MAX), p->workers);
  return EDGERT_OK;
}

/* The float64 sum of a fold over all of the group at x. */
static double sum(const normalize_state *s, int fold, float shift, const float *x, float *scratch) {
  const ert_reduction *r = &s->plan;
  double total = 0;
  ert_cursor c;
  for (int64_t at = 0, run = r->run, n; at < r->folded.elements; at += n) {
    n = ert_min64(run, RUN);
    run = run > n ? run - n : r->run;
    const float *from = ert_reduction_take(&r->folded, &c, x, at, n, scratch);
    total += (double)s->simd->fold_row(fold, 0, shift, from, (size_t)n);
  }
  return total;
}

static void normalize_row(const normalize_state *s, const float *x, float *y, float *scratch) {
  const ert_walk *w = &s->plan.folded;
  const double count = (double)w->elements;
  const float mean = s->rms ? 0.0f : (float)(sum(s, ERT_FOLD_SUM, 0, x, scratch) / count);
  const float scale = (float)(1.0 / sqrt(sum(s, ERT_FOLD_SQUARE, mean, x, scratch) / count + s->epsilon));
  ert_cursor c;
  ert_walk_start(w, &c);
  for (int64_t left = w->elements, n; left > 0; left -= n, ert_walk_advance(w, &c, n)) {
    n = ert_walk_left(w, &c);
    s->simd->center(mean, scale, x + c.offset[0], y + c.offset[1], (size_t)n);
  }
}

/* Rows of `width` columns: added to `sums`; the squares of what is left without `mean`; normalised. */
static void add_rows(double *sums, const float *x, int64_t x_row, int64_t rows, int64_t width) {
  for (; rows > 0; rows--, x += x_row)
    for (int64_t i = 0; i < width; i++) sums[i] += (double)x[i];
}

static void add_squares(double *sums, const double *mean, const float *x, int64_t x_row, int64_t rows, int64_t width) {
  for (; rows > 0; rows--, x += x_row)
    for (int64_t i = 0; i < width; i++) sums[i] += ((double)x[i] - mean[i]) * ((double)x[i] - mean[i]);
}

static void center_rows(const double *mean, const double *scale, const float *x, int64_t x_row, float *y, int64_t y_row,
                        int64_t rows, int64_t width) {
  for (; rows > 0; rows--, x += x_row, y += y_row)
    for (int64_t i = 0; i < width; i++) y[i] = (float)(((double)x[i] - mean[i]) * scale[i]);
}

static void normalize_columns(const normalize_state *s, const float *x, float *y, int64_t width) {
  const ert_walk *w = &s->plan.folded;
  const int64_t x_row = w->stride[0][w->rank - 1], y_row = w->stride[1][w->rank - 1], count = w->elements;
  double mean[TILE] = {0}, scale[TILE] = {0};
  ert_cursor c;
  ert_walk_start(w, &c);
  for (int64_t at = s->rms ? count : 0, n; at < count; at += n, ert_walk_advance(w, &c, n)) {
    n = ert_walk_left(w, &c);
    add_rows(mean, x + c.offset[0], x_row, n, width);
  }
  for (int64_t i = 0; i < width; i++) mean[i] /= (double)count;
  for (int64_t at = 0, n; at < count; at += n, ert_walk_advance(w, &c, n)) {
    n = ert_walk_left(w, &c);
    add_squares(scale, mean, x + c.offset[0], x_row, n, width);
  }
  for (int64_t i = 0; i < width; i++) scale[i] = 1.0 / sqrt(scale[i] / (double)count + s->epsilon);
  for (int64_t at = 0, n; at < count; at += n, ert_walk_advance(w, &c, n)) {
    n = ert_walk_left(w, &c);
    center_rows(mean, scale, x + c.offset[0], x_row, y + c.offset[1], y_row, n, width);
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const normalize_state *s = step->state;
  const ert_walk *w = &s->plan.kept;
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  const int64_t last = ert_cut_at(s->units, step->tasks, end);
  ert_cursor c;
  ert_walk_seek_tile(w, s->tile, unit, &c);
  for (int64_t width; unit < last; unit++, ert_walk_advance(w, &c, width)) {
    width = ert_walk_width(w, &c, s->tile);
    const float *x = (const float *)step->in[0]->data + c.offset[0];
    float *y = (float *)step->out[0]->data + c.offset[1];
    if (s->plan.trailing)
      normalize_row(s, x, y, scratch);
    else
      normalize_columns(s, x, y, width);
  }
}

const ert_kernel ert_kernel_normalize = {.name = "normalize", .prepare = prepare, .run = run, .views = true};
