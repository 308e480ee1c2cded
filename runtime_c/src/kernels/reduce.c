/* reduce: sums, means, products, extremes and norms over any axes; also blocks of 16 over all their pixels. */
#include <math.h>

#include "kernels/dtypes.h"
#include "kernels/reduce_integer.h"
#include "kernels/reduction.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

static const char *const names[] = {"sum", "mean",    "prod",        "max",        "min", "l1",
                                    "l2",  "log_sum", "log_sum_exp", "sum_square", NULL};

enum {
  TILE = 256,       /* columns of a unit */
  RUN = 4096,       /* floats of a row that are added in float32 before float64 takes over */
  COLUMN_RUN = 128, /* rows that are */
};

typedef struct reduce_state {
  ert_reduction plan;
  const ert_simd *simd;
  ert_reduce_integer integer; /* NULL: float32 */
  int kind, fold;
  int64_t tiles; /* of the columns */
  int64_t units;
  int64_t channels, blocks; /* planar output of blocks of 16: blocks of an image; else 0 */
} reduce_state;

static int fold_of(int kind) {
  switch (kind) {
    case ERT_REDUCE_MAX:
      return ERT_FOLD_MAX;
    case ERT_REDUCE_MIN:
      return ERT_FOLD_MIN;
    case ERT_REDUCE_L1:
      return ERT_FOLD_ABS;
    case ERT_REDUCE_L2:
    case ERT_REDUCE_SUM_SQUARE:
      return ERT_FOLD_SQUARE;
    default:
      return ERT_FOLD_SUM;
  }
}

/* Blocks of 16 over every spatial axis: [blocks, pixels, 16] over the middle one. */
static edgert_status plan_blocks(const ert_prepare *p, reduce_state *s, const bool *axes) {
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  for (int i = 0; i < x->rank; i++)
    if (axes[i] != (i >= 2)) return ert_reject(p, "axes of blocks of 16", "every spatial dimension", "others");
  if (x->rank < 3) return ert_reject(p, "rank of blocks of 16", "3 or more", "%d", x->rank);
  if (s->kind == ERT_REDUCE_PROD || s->kind == ERT_REDUCE_LOG_SUM_EXP)
    return ert_reject(p, "kind for blocks of 16", "one but prod and log_sum_exp", "%s", names[s->kind]);
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  if (y->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  ert_tensor view = {.rank = 3, .shape = {0, 1, 16}};
  if (y->elements) {
    s->channels = x->shape[1];
    s->blocks = (x->shape[1] + 15) / 16;
    view.shape[0] = x->shape[0] * s->blocks;
    for (int i = 2; i < x->rank; i++) view.shape[1] *= x->shape[i];
    if (y->layout == ERT_LAYOUT_BLOCK16) s->channels = s->blocks * 16;
  }
  ert_reduction_plan(&view, (const bool[ERT_MAX_RANK]){false, true}, &s->plan);
  s->plan.width = 16; /* also when there is one pixel, and all dimensions are one */
  if (view.shape[1] == 1) {
    s->plan.kept = (ert_walk){.rank = 1, .shape = {view.shape[0]}, .stride = {16}};
    s->plan.stride = 0;
  }
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  bool axes[ERT_MAX_RANK];
  int64_t keepdims, shape[ERT_MAX_RANK];
  uint32_t rank = 0;
  void *state;
  ERT_TRY(ert_state(p, sizeof(reduce_state), &state));
  reduce_state *s = state;
  s->simd = p->simd;
  ERT_TRY(ert_choice(p, "kind", names, &s->kind));
  ERT_TRY(ert_axes(p, x->rank, axes));
  ERT_TRY(ert_int_or(p, "keepdims", 0, 1, 1, &keepdims));
  for (int i = 0; i < x->rank; i++)
    if (!axes[i] || keepdims) shape[rank++] = axes[i] ? 1 : x->shape[i];
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  ERT_TRY(ert_expect_shape(p, y, rank, shape));
  if (x->dtype != EDGERT_F32) {
    s->integer = ert_reduce_integer_find(s->kind, x->dtype);
    if (!s->integer) return ert_reject(p, "kind", "one of this element type", "%s", names[s->kind]);
  }
  s->fold = fold_of(s->kind);
  if (x->layout == ERT_LAYOUT_BLOCK16) {
    ERT_TRY(plan_blocks(p, s, axes));
  } else {
    ERT_TRY(ert_expect_planar(p));
    ert_reduction_plan(x, axes, &s->plan);
  }
  if (s->plan.outputs == 0 || y->elements == 0) return p->step->tasks = 0, EDGERT_OK;

  bool rare = s->kind == ERT_REDUCE_PROD || s->kind == ERT_REDUCE_LOG_SUM_EXP;
  int64_t tile = s->integer || rare ? 1 : TILE, width = s->plan.width;
  s->tiles = (width + tile - 1) / tile;
  s->units = s->plan.outputs / width * s->tiles;
  int64_t cost = s->plan.count < INT32_MAX ? s->plan.count * ert_min64(width, tile) : INT32_MAX;
  p->step->tasks = ert_cut(s->units, rare ? 10 * cost : cost, p->workers);
  return EDGERT_OK;
}

static float finish(const reduce_state *s, double total) {
  switch (s->kind) {
    case ERT_REDUCE_MEAN:
      return (float)(total / (double)s->plan.count);
    case ERT_REDUCE_L2:
      return (float)sqrt(total);
    case ERT_REDUCE_LOG_SUM:
      return (float)log(total);
    default:
      return (float)total;
  }
}

static double fold_rows(const reduce_state *s, int fold, const float *x) {
  const ert_reduction *r = &s->plan;
  const bool sums = fold != ERT_FOLD_MAX && fold != ERT_FOLD_MIN;
  int64_t index[ERT_MAX_RANK] = {0}, offset = 0;
  double total = sums ? 0.0 : fold == ERT_FOLD_MAX ? -INFINITY : INFINITY;
  do {
    for (int64_t i = 0; i < r->n; i += RUN) {
      const size_t n = (size_t)ert_min64(r->n - i, RUN);
      const float part = s->simd->fold_row(fold, sums ? 0.0f : (float)total, 0.0f, x + offset + i, n);
      total = sums ? total + (double)part : (double)part;
    }
  } while (ert_walk_next(&r->folded, index, &offset));
  return total;
}

static void fold_columns(const reduce_state *s, const float *x, float *y, int64_t width, int64_t stored) {
  const ert_reduction *r = &s->plan;
  const bool sums = s->fold != ERT_FOLD_MAX && s->fold != ERT_FOLD_MIN;
  const float first = sums ? 0.0f : s->fold == ERT_FOLD_MAX ? -INFINITY : INFINITY;
  int64_t index[ERT_MAX_RANK] = {0}, offset = 0;
  float part[TILE];
  double total[TILE];
  for (int64_t i = 0; i < width; i++) part[i] = first, total[i] = 0;
  do {
    for (int64_t row = 0; row < r->n; row += COLUMN_RUN) {
      const size_t rows = (size_t)ert_min64(r->n - row, COLUMN_RUN);
      s->simd->fold_columns(s->fold, x + offset + row * r->stride, (ptrdiff_t)r->stride, rows, part, (size_t)width);
      if (!sums) continue;
      for (int64_t i = 0; i < width; i++) total[i] += (double)part[i], part[i] = 0;
    }
  } while (ert_walk_next(&r->folded, index, &offset));
  for (int64_t i = 0; i < stored; i++) y[i] = finish(s, sums ? total[i] : (double)part[i]);
}

/* Products and logarithms of sums of exponentials, one output at a time. */
static float fold_rare(const reduce_state *s, const float *x) {
  const ert_reduction *r = &s->plan;
  double top = -INFINITY, total = s->kind == ERT_REDUCE_PROD ? 1.0 : 0.0;
  int64_t index[ERT_MAX_RANK] = {0}, offset = 0;
  if (s->kind == ERT_REDUCE_LOG_SUM_EXP) {
    do {
      for (int64_t i = 0; i < r->n; i++) {
        const double v = (double)x[offset + i * r->stride];
        if (v > top || v != v) top = v;
      }
    } while (ert_walk_next(&r->folded, index, &offset));
    if (!isfinite(top)) top = 0;
  }
  do {
    for (int64_t i = 0; i < r->n; i++) {
      const double v = (double)x[offset + i * r->stride];
      total = s->kind == ERT_REDUCE_PROD ? total * v : total + exp(v - top);
    }
  } while (ert_walk_next(&r->folded, index, &offset));
  return (float)(s->kind == ERT_REDUCE_PROD ? total : log(total) + top);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const reduce_state *s = step->state;
  const ert_reduction *r = &s->plan;
  const ert_tensor *x = step->in[0], *y = step->out[0];
  begin = ert_cut_at(s->units, step->tasks, begin);
  end = ert_cut_at(s->units, step->tasks, end);
  const bool rare = s->kind == ERT_REDUCE_PROD || s->kind == ERT_REDUCE_LOG_SUM_EXP;
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t kept = unit / s->tiles, column = unit % s->tiles * (s->integer || rare ? 1 : TILE);
    const int64_t from = ert_walk_at(&r->kept, kept) + column, to = kept * r->width + column;
    if (s->integer) {
      s->integer(s->kind, r, x->data, from, y->data, to);
    } else if (rare) {
      ((float *)y->data)[to] = fold_rare(s, (const float *)x->data + from);
    } else if (r->trailing) {
      ((float *)y->data)[to] = finish(s, fold_rows(s, s->fold, (const float *)x->data + from));
    } else if (s->blocks) {
      const int64_t lane = kept % s->blocks * 16;
      fold_columns(s, (const float *)x->data + from, (float *)y->data + kept / s->blocks * s->channels + lane, 16,
                   ert_min64(16, s->channels - lane));
    } else {
      fold_columns(s, (const float *)x->data + from, (float *)y->data + to, ert_min64(r->width - column, TILE),
                   ert_min64(r->width - column, TILE));
    }
  }
}

const ert_kernel ert_kernel_reduce = {.name = "reduce", .prepare = prepare, .run = run};
