/* normalize: zero mean and unit variance, or unit mean square, over any axes, with a scale and a shift along the last
 * one. Two passes; sums in float64. */
#include <math.h>

#include "kernels/reduction.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

enum { TILE = 256, RUN = 4096 /* floats added in float32 before float64 takes over */ };

typedef struct normalize_state {
  ert_reduction plan;
  const ert_simd *simd;
  double epsilon;
  int64_t tile, units; /* rows or columns of a unit */
  bool rms;
  bool rows; /* what is folded lies in one row, of at most RUN: several at a time */
} normalize_state;

/* A scale or shift, if there is one. */
static edgert_status check_parameter(const ert_prepare *p, const bool *axes, const ert_tensor *t) {
  const ert_tensor *x = p->step->in[0];
  if (!t) return EDGERT_OK;
  for (int i = 0; i < x->rank; i++)
    if (axes[i] != (i == x->rank - 1)) return ert_reject(p, "axes with a scale or shift", "the last one", "others");
  ERT_TRY(ert_expect_dtype(p, t, EDGERT_F32));
  return ert_expect_shape(p, t, 1, &x->shape[x->rank - 1]);
}

static const ert_tensor *parameter(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 3, 1, 1));
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
  for (uint32_t i = 1; i < 3; i++) ERT_TRY(check_parameter(p, axes, parameter(p->step, i)));
  s->simd = p->simd;
  s->epsilon = (double)epsilon;
  s->rms = rms == 1;
  if (x->elements == 0) return EDGERT_OK;
  const ert_stored from = ert_stored_of(x), to = ert_stored_of(p->step->out[0]);
  ert_reduction *r = &s->plan;
  ert_reduction_plan(&from, to.stride, axes, 2, r);
  const int64_t n = r->folded.elements;
  s->rows = r->trailing && r->run == n && n <= RUN && r->folded.rank == 1 && r->folded.stride[0][0] == 1 &&
            r->folded.stride[1][0] == 1;
  s->tile = s->rows ? ert_clamp64(RUN / n, 4, TILE) : r->trailing ? 1 : TILE;
  s->units = ert_walk_tiles(&r->kept, s->tile);
  if (r->trailing && !s->rows) p->step->scratch_bytes = RUN * sizeof(float);
  p->step->tasks = ert_cut(s->units, 3 * ert_min64(x->elements / s->units, INT32_MAX), p->workers);
  return EDGERT_OK;
}

/* Added to `sums`, in float64: the sum over all of the group at x, or if `moments`, those of differences from the mean and
 * of their squares. */
static void add_group(const normalize_state *s, bool moments, float mean, const float *x, double sums[2],
                      float *scratch) {
  const ert_reduction *r = &s->plan;
  ert_cursor c;
  for (int64_t at = 0, run = r->run, n; at < r->folded.elements; at += n) {
    n = ert_min64(run, RUN);
    run = run > n ? run - n : r->run;
    const float *from = ert_reduction_take(&r->folded, &c, x, at, n, scratch);
    float part[2] = {0};
    if (moments)
      s->simd->moments(mean, from, (size_t)n, part);
    else
      part[0] = s->simd->fold_row(ERT_FOLD_SUM, 0, from, (size_t)n);
    for (int i = 0; i < 2; i++) sums[i] += (double)part[i];
  }
}

static void normalize_row(const normalize_state *s, const ert_normal *by, const float *x, float *y, float *scratch) {
  const ert_walk *w = &s->plan.folded;
  double sum[2] = {0}, moments[2] = {0};
  if (!s->rms) add_group(s, false, 0, x, sum, scratch);
  const float mean = (float)(sum[0] / (double)w->elements);
  add_group(s, true, mean, x, moments, scratch);
  const ert_center center = ert_center_of(by, mean, moments[0], moments[1]);
  ert_cursor c;
  ert_walk_start(w, &c);
  for (int64_t at = 0, n; at < w->elements; at += n, ert_walk_advance(w, &c, n)) {
    n = ert_walk_left(w, &c);
    s->simd->center(&center, by->scale ? by->scale + at : NULL, by->shift ? by->shift + at : NULL, x + c.offset[0],
                    y + c.offset[1], (size_t)n);
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
  const ert_tensor *scale = parameter(step, 1), *shift = parameter(step, 2);
  const ert_normal by = {.n = (size_t)s->plan.folded.elements,
                         .epsilon = s->epsilon,
                         .rms = s->rms,
                         .scale = scale ? scale->data : NULL,
                         .shift = shift ? shift->data : NULL};
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  const int64_t last = ert_cut_at(s->units, step->tasks, end);
  ert_cursor c;
  ert_walk_seek_tile(w, s->tile, unit, &c);
  for (int64_t width; unit < last; unit++, ert_walk_advance(w, &c, width)) {
    width = ert_walk_width(w, &c, s->tile);
    const float *x = (const float *)step->in[0]->data + c.offset[0];
    float *y = (float *)step->out[0]->data + c.offset[1];
    if (s->rows)
      s->simd->normalize_rows(&by, x, (ptrdiff_t)w->stride[0][w->rank - 1], y, (ptrdiff_t)w->stride[1][w->rank - 1],
                              (size_t)width);
    else if (s->plan.trailing)
      normalize_row(s, &by, x, y, scratch);
    else
      normalize_columns(s, x, y, width);
  }
}

const ert_kernel ert_kernel_normalize = {.name = "normalize", .prepare = prepare, .run = run, .views = true};
