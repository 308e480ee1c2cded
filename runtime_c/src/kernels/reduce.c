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
  COLUMN_RUN = 128, /* rows that are; a multiple of 4 */
  LANES = 16,
};

typedef struct reduce_state {
  ert_reduction plan;
  const ert_simd *simd;
  ert_reduce_integer integer; /* NULL: float32 */
  int kind, fold;
  int64_t tile; /* columns of a unit */
  int64_t units;
  bool rows;                /* what is folded lies in one row, of at most RUN: several outputs at a time */
  int64_t channels, blocks; /* blocks of 16: channels that y stores, and blocks of an image; else 0 */
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

/* Blocks of 16 over every spatial axis: y's strides along the dimensions of x as stored. */
static edgert_status plan_blocks(const ert_prepare *p, reduce_state *s, const bool *axes, int64_t *y_stride) {
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  for (int i = 0; i < x->rank; i++)
    if (axes[i] != (i >= 2)) return ert_reject(p, "axes of blocks of 16", "every spatial dimension", "others");
  if (x->rank < 3) return ert_reject(p, "rank of blocks of 16", "3 or more", "%d", x->rank);
  if (s->kind == ERT_REDUCE_PROD || s->kind == ERT_REDUCE_LOG_SUM_EXP)
    return ert_reject(p, "kind for blocks of 16", "one but prod and log_sum_exp", "%s", names[s->kind]);
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  const bool blocked = y->layout == ERT_LAYOUT_BLOCK16;
  if (!blocked) ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  const int64_t channel = ert_stride(y, 1);
  s->blocks = (x->shape[1] + LANES - 1) / LANES;
  s->channels = blocked ? s->blocks * LANES : x->shape[1];
  s->tile = LANES;
  y_stride[0] = ert_stride(y, 0);
  y_stride[1] = blocked ? channel : channel * LANES;
  y_stride[x->rank] = blocked ? 1 : channel;
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  bool axes[ERT_WALK_RANK];
  int64_t keepdims, shape[ERT_MAX_RANK], y_stride[ERT_WALK_RANK] = {0};
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
  const bool rare = s->kind == ERT_REDUCE_PROD || s->kind == ERT_REDUCE_LOG_SUM_EXP;
  if (x->layout == ERT_LAYOUT_BLOCK16) {
    ERT_TRY(plan_blocks(p, s, axes, y_stride));
  } else {
    ERT_TRY(ert_expect_planar(p));
    for (int i = 0, to = 0; i < x->rank; i++) {
      if (!axes[i]) y_stride[i] = ert_stride(y, to);
      to += !axes[i] || keepdims;
    }
    s->tile = s->integer || rare ? 1 : TILE;
  }
  if (y->elements == 0) return EDGERT_OK;

  ert_reduction *r = &s->plan;
  const ert_stored stored = ert_stored_of(x);
  ert_reduction_plan(&stored, y_stride, axes, 1, r);
  const bool one_row = r->trailing && r->folded.rank == 1 && r->folded.stride[0][0] == 1 && r->run <= RUN;
  s->rows = one_row && !s->integer && !rare && r->run == r->folded.elements;
  if (s->rows)
    s->tile = ert_clamp64(4 * (RUN / ert_max64(r->run, 1)), 4, TILE);
  else if (r->trailing)
    s->tile = 1, p->step->scratch_bytes = RUN * sizeof(float);
  s->units = ert_walk_tiles(&r->kept, s->tile);
  const int64_t width = ert_min64(r->kept.shape[r->kept.rank - 1], s->tile);
  const int64_t cost = ert_min64(r->folded.elements, INT32_MAX) * width;
  p->step->tasks = ert_cut(s->units, rare ? 10 * cost : cost, p->workers);
  return EDGERT_OK;
}

static float finish(const reduce_state *s, double total) {
  switch (s->kind) {
    case ERT_REDUCE_MEAN:
      return (float)(total / (double)s->plan.folded.elements);
    case ERT_REDUCE_L2:
      return (float)sqrt(total);
    case ERT_REDUCE_LOG_SUM:
      return (float)log(total);
    default:
      return (float)total;
  }
}

static bool is_sum(const reduce_state *s) { return s->fold != ERT_FOLD_MAX && s->fold != ERT_FOLD_MIN; }

/* The folded value of nothing. */
static float neutral(const reduce_state *s) {
  return is_sum(s) ? 0.0f : s->fold == ERT_FOLD_MAX ? -INFINITY : INFINITY;
}

static float fold_row(const reduce_state *s, const float *x, float *scratch) {
  const ert_reduction *r = &s->plan;
  const bool sums = is_sum(s);
  double total = (double)neutral(s);
  ert_cursor c;
  for (int64_t at = 0, run = r->run, n; at < r->folded.elements; at += n) {
    n = ert_min64(run, RUN);
    run = run > n ? run - n : r->run;
    const float *from = ert_reduction_take(&r->folded, &c, x, at, n, scratch);
    const float part = s->simd->fold_row(s->fold, sums ? 0.0f : (float)total, from, (size_t)n);
    total = sums ? total + (double)part : (double)part;
  }
  return finish(s, total);
}

/* As many rows of what one output has. */
static void fold_rows(const reduce_state *s, const float *x, float *y, int64_t y_stride, int64_t rows) {
  const ert_walk *kept = &s->plan.kept;
  float parts[TILE];
  s->simd->fold_rows(s->fold, x, (ptrdiff_t)kept->stride[0][kept->rank - 1], (size_t)s->plan.folded.elements,
                     (size_t)rows, parts);
  for (int64_t i = 0; i < rows; i++) y[i * y_stride] = finish(s, (double)parts[i]);
}

/* Rows [at, at + n) of a run of pixels of 16 lanes: every fourth pixel goes to the same 16 parts, so that additions need
 * not wait for each other. */
static void fold_pixels(const reduce_state *s, const float *x, int64_t stride, int64_t at, int64_t n, float *part) {
  for (int64_t m; n > 0; n -= m, at += m, x += m * stride) {
    const int64_t four = stride == LANES && at % 4 == 0 && n >= 4 ? 4 : 1;
    m = four == 4 ? n / 4 * 4 : 1;
    s->simd->fold_columns(s->fold, x, (ptrdiff_t)(four * LANES), (size_t)(m / four), part + at % 4 * LANES,
                          (size_t)(four * LANES));
  }
}

/* Columns of one tile, those that y stores, `y_stride` apart. */
static void fold_columns(const reduce_state *s, const float *x, float *y, int64_t y_stride, int64_t width,
                         int64_t stored) {
  const ert_reduction *r = &s->plan;
  const int64_t stride = r->folded.stride[0][r->folded.rank - 1], parts = s->blocks ? 4 * width : width;
  const int join = is_sum(s) ? ERT_FOLD_SUM : s->fold;
  const float first = neutral(s);
  float part[TILE];
  double total[TILE];
  for (int64_t i = 0; i < parts; i++) part[i] = first;
  for (int64_t i = 0; i < width; i++) total[i] = 0;
  ert_cursor c;
  ert_walk_start(&r->folded, &c);
  for (int64_t left = r->folded.elements, run = r->run, rows; left > 0; left -= rows) {
    rows = ert_min64(run, COLUMN_RUN);
    run = run > rows ? run - rows : r->run;
    for (int64_t done = 0, n; done < rows; done += n, ert_walk_advance(&r->folded, &c, n)) {
      n = ert_min64(ert_walk_left(&r->folded, &c), rows - done);
      if (s->blocks)
        fold_pixels(s, x + c.offset[0], stride, done, n, part);
      else
        s->simd->fold_columns(s->fold, x + c.offset[0], (ptrdiff_t)stride, (size_t)n, part, (size_t)width);
    }
    if (s->blocks) s->simd->fold_columns(join, part + LANES, LANES, 3, part, LANES);
    for (int64_t i = width; i < parts && left > rows; i++) part[i] = first;
    if (!is_sum(s)) continue;
    for (int64_t i = 0; i < width; i++) total[i] += (double)part[i], part[i] = 0;
  }
  for (int64_t i = 0; i < stored; i++) y[i * y_stride] = finish(s, is_sum(s) ? total[i] : (double)part[i]);
}

/* Products and logarithms of sums of exponentials, one output at a time. */
static float fold_rare(const reduce_state *s, const float *x) {
  const ert_walk *w = &s->plan.folded;
  const int64_t stride = w->stride[0][w->rank - 1], count = w->elements;
  double top = -INFINITY, total = s->kind == ERT_REDUCE_PROD ? 1.0 : 0.0;
  ert_cursor c;
  ert_walk_start(w, &c);
  if (s->kind == ERT_REDUCE_LOG_SUM_EXP) {
    for (int64_t left = count, n; left > 0; left -= n, ert_walk_advance(w, &c, n)) {
      n = ert_walk_left(w, &c);
      for (int64_t i = 0; i < n; i++) {
        const double v = (double)x[c.offset[0] + i * stride];
        if (v > top || v != v) top = v;
      }
    }
    if (!isfinite(top)) top = 0;
  }
  for (int64_t left = count, n; left > 0; left -= n, ert_walk_advance(w, &c, n)) {
    n = ert_walk_left(w, &c);
    for (int64_t i = 0; i < n; i++) {
      const double v = (double)x[c.offset[0] + i * stride];
      total = s->kind == ERT_REDUCE_PROD ? total * v : total + exp(v - top);
    }
  }
  return (float)(s->kind == ERT_REDUCE_PROD ? total : log(total) + top);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const reduce_state *s = step->state;
  const ert_reduction *r = &s->plan;
  const ert_tensor *x = step->in[0], *y = step->out[0];
  const bool rare = s->kind == ERT_REDUCE_PROD || s->kind == ERT_REDUCE_LOG_SUM_EXP;
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  const int64_t last = ert_cut_at(s->units, step->tasks, end);
  ert_cursor c;
  ert_walk_seek_tile(&r->kept, s->tile, unit, &c);
  for (int64_t width; unit < last; unit++, ert_walk_advance(&r->kept, &c, width)) {
    width = ert_walk_width(&r->kept, &c, s->tile);
    if (s->integer) {
      s->integer(s->kind, r, x->data, c.offset[0], y->data, c.offset[1]);
      continue;
    }
    const float *from = (const float *)x->data + c.offset[0];
    float *to = (float *)y->data + c.offset[1];
    if (rare)
      *to = fold_rare(s, from);
    else if (s->rows)
      fold_rows(s, from, to, r->kept.stride[1][r->kept.rank - 1], width);
    else if (r->trailing)
      *to = fold_row(s, from, scratch);
    else
      fold_columns(s, from, to, r->kept.stride[1][r->kept.rank - 1], width,
                   s->blocks ? ert_min64(width, s->channels - unit % s->blocks * LANES) : width);
  }
}

const ert_kernel ert_kernel_reduce = {.name = "reduce", .prepare = prepare, .run = run, .views = true};
