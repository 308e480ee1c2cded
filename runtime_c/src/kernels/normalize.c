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
  int64_t tiles, units;
  bool rms;
} normalize_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ert_allow_in_place(p, 0);
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  bool axes[ERT_MAX_RANK];
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
  if (x->elements == 0) return p->step->tasks = 0, EDGERT_OK;
  ert_reduction_plan(x, axes, &s->plan);
  s->tiles = (s->plan.width + TILE - 1) / TILE;
  s->units = s->plan.outputs / s->plan.width * s->tiles;
  p->step->tasks = ert_cut(s->units, 3 * ert_min64(x->elements / s->units, INT32_MAX), p->workers);
  return EDGERT_OK;
}

/* The float64 sum of a fold over every run of the group at x. */
static double sum(const normalize_state *s, int fold, float shift, const float *x) {
  const ert_reduction *r = &s->plan;
  int64_t index[ERT_MAX_RANK] = {0}, offset = 0;
  double total = 0;
  do {
    for (int64_t i = 0; i < r->n; i += RUN)
      total += (double)s->simd->fold_row(fold, 0, shift, x + offset + i, (size_t)ert_min64(r->n - i, RUN));
  } while (ert_walk_next(&r->folded, index, &offset));
  return total;
}

static void normalize_runs(const normalize_state *s, const float *x, float *y) {
  const ert_reduction *r = &s->plan;
  const double count = (double)r->count;
  const float mean = s->rms ? 0.0f : (float)(sum(s, ERT_FOLD_SUM, 0, x) / count);
  const float scale = (float)(1.0 / sqrt(sum(s, ERT_FOLD_SQUARE, mean, x) / count + s->epsilon));
  int64_t index[ERT_MAX_RANK] = {0}, offset = 0;
  do {
    s->simd->center(mean, scale, x + offset, y + offset, (size_t)r->n);
  } while (ert_walk_next(&r->folded, index, &offset));
}

static void normalize_columns(const normalize_state *s, const float *x, float *y, int64_t width) {
  const ert_reduction *r = &s->plan;
  double mean[TILE] = {0}, scale[TILE] = {0};
  int64_t index[ERT_MAX_RANK] = {0}, offset = 0;
  if (!s->rms) {
    do {
      for (int64_t row = 0; row < r->n; row++)
        for (int64_t i = 0; i < width; i++) mean[i] += (double)x[offset + row * r->stride + i];
    } while (ert_walk_next(&r->folded, index, &offset));
    for (int64_t i = 0; i < width; i++) mean[i] /= (double)r->count;
  }
  do {
    for (int64_t row = 0; row < r->n; row++)
      for (int64_t i = 0; i < width; i++) {
        const double v = (double)x[offset + row * r->stride + i] - mean[i];
        scale[i] += v * v;
      }
  } while (ert_walk_next(&r->folded, index, &offset));
  for (int64_t i = 0; i < width; i++) scale[i] = 1.0 / sqrt(scale[i] / (double)r->count + s->epsilon);
  do {
    for (int64_t row = 0; row < r->n; row++)
      for (int64_t i = 0; i < width; i++) {
        const int64_t at = offset + row * r->stride + i;
        y[at] = (float)(((double)x[at] - mean[i]) * scale[i]);
      }
  } while (ert_walk_next(&r->folded, index, &offset));
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const normalize_state *s = step->state;
  begin = ert_cut_at(s->units, step->tasks, begin);
  end = ert_cut_at(s->units, step->tasks, end);
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t column = unit % s->tiles * TILE, from = ert_walk_at(&s->plan.kept, unit / s->tiles) + column;
    const float *x = (const float *)step->in[0]->data + from;
    float *y = (float *)step->out[0]->data + from;
    if (s->plan.trailing)
      normalize_runs(s, x, y);
    else
      normalize_columns(s, x, y, ert_min64(s->plan.width - column, TILE));
  }
}

const ert_kernel ert_kernel_normalize = {.name = "normalize", .prepare = prepare, .run = run};
