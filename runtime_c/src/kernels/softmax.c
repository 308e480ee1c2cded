/* softmax: its logarithm and hardmax too, along a run of neighbouring axes taken together. */
#include <string.h>

#include "kernels/reduction.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/transpose.h"

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };
enum { TILE = 256, SCATTERED_TILE = 16, ROWS = 4 }; /* columns of a unit; where they have to be gathered; rows */
enum {
  SHORT = 64,          /* elements of rows that are better transposed, so that vectors go across them */
  TURNED = 64,         /* such rows of a unit */
  PITCH = TURNED + 16, /* floats from element to element of a transposed row: no power of two */
};

typedef struct softmax_state {
  ert_reduction plan;
  const ert_simd *simd;
  int kind;
  int64_t tile, units;
  bool rows;      /* what is folded is contiguous */
  bool turned;    /* so it is, and short: it passes transposed through scratch */
  bool scattered; /* what is folded does not lie at one stride in x and in y: it passes through scratch */
} softmax_state;

static edgert_status prepare(ert_prepare *p) {
  static const char *const kinds[] = {"softmax", "log_softmax", "hardmax", NULL};
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ert_allow_in_place(p, 0);
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  bool axes[ERT_WALK_RANK];
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
  if (x->elements == 0) return EDGERT_OK;

  const ert_stored from = ert_stored_of(x), to = ert_stored_of(p->step->out[0]);
  ert_reduction *r = &s->plan;
  ert_reduction_plan(&from, to.stride, axes, 2, r);
  s->scattered = r->folded.rank > 1;
  s->rows =
      r->trailing && !s->scattered && s->kind != HARDMAX && r->folded.stride[0][0] == 1 && r->folded.stride[1][0] == 1;
  s->turned = s->rows && r->folded.elements <= SHORT;
  s->tile = s->turned ? TURNED : s->rows ? ROWS : r->trailing ? 1 : s->scattered ? SCATTERED_TILE : TILE;
  s->units = ert_walk_tiles(&r->kept, s->tile);
  if (s->turned) p->step->scratch_bytes = (size_t)(r->folded.elements * PITCH) * sizeof(float);
  if (s->scattered) p->step->scratch_bytes = (size_t)(r->folded.elements * s->tile) * sizeof(float);
  p->step->tasks = ert_cut(s->units, 4 * ert_min64(x->elements / s->units, INT32_MAX), p->workers);
  return EDGERT_OK;
}

/* 1 at the first largest value, a NaN counting as larger than all. */
static void hardmax(const float *x, int64_t x_stride, float *y, int64_t y_stride, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    const float v = x[i * x_stride], top = x[best * x_stride];
    if (v > top || (v != v && top == top)) best = i;
  }
  for (int64_t i = 0; i < n; i++) y[i * y_stride] = i == best ? 1.0f : 0.0f;
}

/* `width` columns of rows that lie `x_stride` and `y_stride` apart; y may be x. */
static void columns(const softmax_state *s, const float *x, int64_t x_stride, float *y, int64_t y_stride,
                    int64_t width) {
  const int64_t n = s->plan.folded.elements;
  const bool log = s->kind == LOG_SOFTMAX;
  if (s->kind == HARDMAX)
    for (int64_t i = 0; i < width; i++) hardmax(x + i, x_stride, y + i, y_stride, n);
  else if (width == 1 && x_stride == 1 && y_stride == 1)
    s->simd->softmax_rows(log, x, 0, y, 0, (size_t)n, 1);
  else
    s->simd->softmax_columns(log, x, (ptrdiff_t)x_stride, y, (ptrdiff_t)y_stride, (size_t)n, (size_t)width);
}

/* The same where rows lie anywhere. */
static void scattered_columns(const softmax_state *s, const float *x, float *y, int64_t width, float *scratch) {
  const ert_walk *w = &s->plan.folded;
  const size_t bytes = (size_t)width * sizeof *x;
  ert_cursor c;
  ert_walk_start(w, &c);
  for (int64_t row = 0; row < w->elements; row++, ert_walk_advance(w, &c, 1))
    memcpy(scratch + row * width, x + c.offset[0], bytes);
  columns(s, scratch, width, scratch, width, width);
  for (int64_t row = 0; row < w->elements; row++, ert_walk_advance(w, &c, 1))
    memcpy(y + c.offset[1], scratch + row * width, bytes);
}

/* `count` short rows. */
static void turned_rows(const softmax_state *s, const float *x, int64_t x_row, float *y, int64_t y_row, int64_t count,
                        float *scratch) {
  const int64_t n = s->plan.folded.elements;
  ert_transpose(scratch, PITCH, x, x_row, n, count, sizeof *x);
  s->simd->softmax_columns(s->kind == LOG_SOFTMAX, scratch, PITCH, scratch, PITCH, (size_t)n, (size_t)count);
  ert_transpose(y, y_row, scratch, PITCH, count, n, sizeof *x);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const softmax_state *s = step->state;
  const ert_walk *kept = &s->plan.kept, *w = &s->plan.folded;
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  const int64_t last = ert_cut_at(s->units, step->tasks, end);
  ert_cursor c;
  ert_walk_seek_tile(kept, s->tile, unit, &c);
  for (int64_t width; unit < last; unit++, ert_walk_advance(kept, &c, width)) {
    width = ert_walk_width(kept, &c, s->tile);
    const float *x = (const float *)step->in[0]->data + c.offset[0];
    float *y = (float *)step->out[0]->data + c.offset[1];
    const int64_t x_row = kept->stride[0][kept->rank - 1], y_row = kept->stride[1][kept->rank - 1];
    if (s->turned)
      turned_rows(s, x, x_row, y, y_row, width, scratch);
    else if (s->rows)
      s->simd->softmax_rows(s->kind == LOG_SOFTMAX, x, (ptrdiff_t)x_row, y, (ptrdiff_t)y_row, (size_t)w->elements,
                            (size_t)width);
    else if (s->scattered)
      scattered_columns(s, x, y, width, scratch);
    else
      columns(s, x, w->stride[0][0], y, w->stride[1][0], width);
  }
}

const ert_kernel ert_kernel_softmax = {.name = "softmax", .prepare = prepare, .run = run, .views = true};
