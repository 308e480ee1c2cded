/* conv_unrolled: convolution of planar activations with weights most of which are zero, the others becoming instructions. */
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/partition.h"
#include "kernels/unrolled_stream.h"

typedef struct unrolled_state {
  ert_sparse_geometry s;
  const ert_simd *simd;
  ert_finish finish;
  ert_strides x, y, residual;
  ert_unrolled_stream stream;
  bool contiguous; /* rows of outputs and residuals follow one another */
  int64_t vectors; /* of a strip, at most */
  int64_t runs, *ends; /* of groups of filters: tasks of the same strip; where they end in each group of the convolution */
  int64_t *filters;    /* the first one of each group, of all of the convolution */
  size_t widened_at, vectors_at, sums_at, runs_at; /* in scratch: floats */
  int32_t offsets[]; /* of the places of a tile, in bytes */
} unrolled_state;

static const ert_tensor *operand(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

static int64_t vectors_of(const unrolled_state *s, int64_t rows, int64_t columns) {
  if (s->contiguous) return ert_ceil_divide((rows - 1) * s->s.line + columns, ERT_UNROLLED_LANES);
  return rows * ert_ceil_divide(columns, ERT_UNROLLED_LANES);
}

/* Scratch: the lines of a tile and what vectors load behind them, widened values, vectors, sums, and what is copied; its size
 * in floats. */
static bool lay_out(unrolled_state *s, size_t *inputs, size_t *floats) {
  const ert_sparse_geometry *g = &s->s;
  const size_t lanes = ERT_UNROLLED_LANES, each = (size_t)s->stream.each * ERT_UNROLLED_FILTERS;
  size_t size;
  if (!ert_multiply((size_t)g->line, (size_t)(g->tile * g->lines), inputs) ||
      !ert_add(*inputs, (size_t)g->reach + lanes + ERT_SPARSE_SLACK, &size) || !ert_align_up(size, 16, &size))
    return false;
  s->widened_at = g->in_place ? 0 : size;
  s->vectors_at = s->widened_at;
  if (s->stream.weights != ERT_WEIGHTS_F32) s->vectors_at += (size_t)(ert_ceil_divide(s->stream.n_values, 16) * 16);
  size = (size_t)s->vectors * sizeof(ert_unrolled_vector) / sizeof(float);
  if (!ert_align_up(s->vectors_at + size, 16, &s->sums_at)) return false;
  size = 0;
  if (g->tiles > 1 && !ert_multiply((size_t)s->vectors * lanes, each, &size)) return false;
  if (!ert_add(s->sums_at, size, &s->runs_at)) return false;
  size = g->in_place ? 0 : (size_t)g->runs * (sizeof(ert_sparse_run) / sizeof(float));
  return ert_add(s->runs_at, size, floats) && *floats <= SIZE_MAX / 64;
}

/* Where in the lines of a channel each tap lies, for the first output of a strip. */
static int64_t tap_at(const ert_sparse_geometry *s, int64_t tap) {
  const ert_conv_geometry *g = &s->g;
  const int64_t column = tap % g->kernel[2] * g->dilation[2], rest = tap / g->kernel[2];
  const int64_t row = rest % g->kernel[1] * g->dilation[1], depth = rest / g->kernel[1] * g->dilation[0];
  for (int64_t i = 0; i < s->lines; i++)
    if (s->at[i].depth == depth && s->at[i].row == row && s->at[i].column == column % g->stride[2])
      return i * s->line + column / g->stride[2];
  return 0; /* every tap has a line */
}

static void list_offsets(const unrolled_state *s, int32_t *offsets) {
  const ert_sparse_geometry *g = &s->s;
  const int64_t taps = ert_volume(g->g.kernel), channel = g->in_place ? s->x.channel : g->lines * g->line;
  for (int64_t tap = 0; tap < taps; tap++) {
    const int64_t at = tap_at(g, tap);
    for (int64_t c = 0; c < g->tile; c++) offsets[c * taps + tap] = (int32_t)((c * channel + at) * 4);
  }
}

/* Tasks: strips, and runs of groups of filters where strips are too few for the workers. */
static void cut(ert_prepare *p, unrolled_state *s) {
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = g->batch * g->groups * g->out[0] * s->s.strips * s->s.segments;
  const double products =
      (double)p->step->in[ERT_UNROLLED_VALUES]->elements * (double)ert_volume(g->out) * (double)g->batch;
  s->runs = ert_min64(ert_pieces(strips, products, p->workers), s->stream.each);
  p->step->tasks = strips * s->runs;
}

/* The groups of filters of a group of the convolution, from number `first` on, and what each takes. */
typedef struct group_work {
  const unrolled_state *s;
  int64_t first;
} group_work;

static int64_t work_of(const void *of, int64_t i) {
  const group_work *w = of;
  int64_t work = 0;
  for (int64_t tile = 0; tile < w->s->s.tiles; tile++)
    work += ert_unrolled_group_at(&w->s->stream, tile, w->first + i).n_values;
  return work;
}

static edgert_status unrolled_prepare(ert_prepare *p) {
  unrolled_state state = {.simd = p->simd}, *s;
  ert_activation activation;
  ERT_TRY(ert_expect_operands(p, ERT_UNROLLED_BIAS, ERT_UNROLLED_OPERANDS, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  ERT_TRY(ert_activation_read(p, &activation));
  ert_allow_in_place(p, ERT_UNROLLED_RESIDUAL);
  const ert_tensor *x = p->step->in[ERT_UNROLLED_X], *y = p->step->out[0];
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  state.finish = ert_finish_of(activation);
  ert_strides_of_step(p->step, ERT_UNROLLED_RESIDUAL, &state.x, &state.y, &state.residual);
  int64_t out[3] = {1, 1, 1};
  for (int i = 2; i < y->rank; i++) out[i + 3 - y->rank] = y->shape[i];
  const bool joined = ert_positions_joined(&state.y, out) && ert_positions_joined(&state.residual, out);
  ERT_TRY(ert_sparse_geometry_unrolled(p, joined, &state.s));
  ERT_TRY(ert_unrolled_stream_read(p, &state.s, &state.stream));
  const ert_tensor *residual = operand(p->step, ERT_UNROLLED_RESIDUAL);
  if (residual) ERT_TRY(ert_expect_same_type(p, y, residual));
  if (y->elements == 0) return EDGERT_OK;
  const ert_conv_geometry *g = &state.s.g;
  state.contiguous = state.s.segments == 1 && state.y.row == g->out[2] && state.residual.row == g->out[2];
  state.contiguous |= state.s.flat;
  const int64_t columns = ert_ceil_divide(ert_ceil_divide(g->out[2], state.s.unit), state.s.segments) * state.s.unit;
  state.vectors = vectors_of(&state, state.s.rows, columns);
  size_t inputs, floats;
  if (!lay_out(&state, &inputs, &floats) || inputs > INT32_MAX / 4)
    return ert_reject(p, "inputs of one strip", "fewer bytes than memory can have", "more");
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)inputs, (double)ert_volume(g->out) * (double)g->filters));
  cut(p, &state);
  const size_t places = (size_t)(state.s.tile * ert_volume(g->kernel));
  size_t bytes = sizeof *s + (places * sizeof *s->offsets + 7) / 8 * 8;
  const int64_t ends = g->groups * state.runs, groups = g->groups * state.stream.each;
  ERT_TRY(ert_state(p, bytes + (size_t)(ends + groups) * sizeof *s->ends, (void **)&s));
  *s = state;
  list_offsets(s, s->offsets);
  s->ends = (int64_t *)(void *)((char *)s + bytes);
  s->filters = s->ends + ends;
  for (int64_t i = 1; i < groups; i++)
    s->filters[i] = s->filters[i - 1] + ert_unrolled_group_at(&s->stream, 0, i - 1).filters;
  for (int64_t group = 0; group < g->groups; group++)
    ert_cut_by_work(s->stream.each, s->runs, work_of, &(group_work){s, group * s->stream.each},
                    s->ends + group * s->runs);
  p->step->scratch_bytes = floats * sizeof(float);
  if (s->simd->unrolled_bytes)
    p->step->code_bytes = s->simd->unrolled_bytes((size_t)s->stream.n_batches, (size_t)s->stream.n_values);
  return EDGERT_OK;
}

/* The vectors of a strip, whose outputs are `width` columns of some rows; their number. If rows follow one another, a vector
 * has positions of several, and those between them are left out; the last one of a line that is read in place begins so much
 * earlier that it ends with it. */
static size_t list_vectors(const unrolled_state *s, const ert_sparse_strip *strip, ert_unrolled_vector *to) {
  const ert_sparse_geometry *g = &s->s;
  const int64_t lanes = ERT_UNROLLED_LANES, width = strip->columns;
  const int64_t line = s->contiguous ? g->line : width, all = s->contiguous ? (strip->rows - 1) * line + width : width;
  size_t n = 0;
  for (int64_t row = 0; row < (s->contiguous ? 1 : strip->rows); row++)
    for (int64_t at = 0; at < all; at += lanes, n++) {
      const int64_t from = g->in_place && at + lanes > all ? all - lanes : at;
      ert_unrolled_vector *v = to + n;
      *v = (ert_unrolled_vector){.x = row * g->line + from};
      int64_t first = -1, count = 0;
      for (int64_t i = at; i < ert_min64(at + lanes, all); i++)
        if (i % line < width) {
          v->valid |= (uint16_t)(1u << (i - from));
          if (count++ == 0) first = i;
        }
      const bool moved = s->contiguous && strip->rows > 1;
      v->stored = moved ? (uint16_t)((1u << count) - 1) : v->valid;
      const int64_t y = count == 0 ? 0 : moved ? first / line * width + first % line : from;
      v->y = row * s->y.row + y;
      v->residual = row * s->residual.row + y;
    }
  return n;
}

/* A strip of the outputs of a group of an image. */
typedef struct unrolled_task {
  ert_sparse_strip strip;
  int64_t image, group; /* of the convolution */
  const float *x;       /* the group's first channel */
} unrolled_task;

static void copy_tile(const unrolled_state *s, const unrolled_task *task, int64_t tile, float *scratch, size_t n_runs) {
  const int64_t first = tile * s->s.tile, channels = ert_min64(s->s.tile, s->s.g.channels - first);
  const ert_sparse_copy copy = {
      .x = task->x + first * s->x.channel,
      .x_channel = s->x.channel,
      .step = (size_t)s->s.g.stride[2],
      .runs = (const ert_sparse_run *)(const void *)(scratch + s->runs_at),
      .n_runs = n_runs,
      .channels = (size_t)channels,
      .to = scratch,
  };
  s->simd->sparse_copy(&copy);
  const size_t behind = (size_t)(s->s.reach + ERT_UNROLLED_LANES);
  memset(scratch + channels * s->s.lines * s->s.line, 0, behind * sizeof(float));
}

static const float *values_of(const unrolled_state *s, const ert_step *step, const ert_unrolled_group *group,
                              float *widened) {
  const ert_tensor *values = step->in[ERT_UNROLLED_VALUES];
  if (s->stream.weights == ERT_WEIGHTS_F32) return (const float *)values->data + group->value;
  s->simd->sparse_widen(s->stream.weights, (const uint16_t *)values->data + group->value, widened,
                        (size_t)group->n_values);
  return widened;
}

/* Groups of filters [first, end) of a strip, counted among those of the convolution's group. */
static void run_groups(const unrolled_state *s, const ert_step *step, const unrolled_task *task, int64_t first,
                       int64_t end, float *scratch) {
  const ert_sparse_geometry *g = &s->s;
  const ert_sparse_strip *strip = &task->strip;
  const ert_tensor *bias = operand(step, ERT_UNROLLED_BIAS), *residual = operand(step, ERT_UNROLLED_RESIDUAL);
  const int64_t y_at = ert_position(&s->y, task->image, strip->depth, strip->row, strip->column);
  const int64_t residual_at = ert_position(&s->residual, task->image, strip->depth, strip->row, strip->column);
  ert_unrolled_vector *vectors = (ert_unrolled_vector *)(void *)(scratch + s->vectors_at);
  ert_unrolled u = {
      .offsets = s->offsets,
      .vectors = vectors,
      .n_vectors = list_vectors(s, strip, vectors),
      .together = s->contiguous && strip->rows > 1,
      .y_filter = s->y.channel,
      .residual_filter = s->residual.channel,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
      .code = step->executable ? (uint8_t *)scratch + step->code : NULL,
      .executable = step->executable,
  };
  size_t n_runs = 0;
  if (!g->in_place)
    n_runs = ert_sparse_runs(g, &s->x, strip, (ert_sparse_run *)(void *)(scratch + s->runs_at));
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    u.first = tile == 0;
    u.last = tile == g->tiles - 1;
    if (!g->in_place) copy_tile(s, task, tile, scratch, n_runs);
    u.x = g->in_place ? task->x + tile * g->tile * s->x.channel + strip->column : scratch;
    for (int64_t i = first; i < end; i++) {
      const int64_t number = task->group * s->stream.each + i, filter = s->filters[number];
      const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, tile, number);
      u.n_filters = (size_t)group.filters;
      u.places = s->stream.places + group.batch, u.n_batches = (size_t)group.n_batches;
      u.owners = s->stream.owners + group.value, u.n_values = (size_t)group.n_values;
      u.values = values_of(s, step, &group, scratch + s->widened_at);
      u.bias = bias ? (const float *)bias->data + filter : NULL;
      u.sums = scratch + s->sums_at + (size_t)((i - first) * ERT_UNROLLED_FILTERS) * u.n_vectors * ERT_UNROLLED_LANES;
      u.y = (float *)step->out[0]->data + y_at + filter * s->y.channel;
      if (residual) u.residual = (const float *)residual->data + residual_at + filter * s->residual.channel;
      s->simd->unrolled(&u);
      if (u.last)
        ert_finish_stored(&s->finish, s->simd, u.y, u.n_filters, u.y_filter, (size_t)strip->rows, s->y.row,
                          (size_t)strip->columns);
    }
  }
}

static void unrolled_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const unrolled_state *s = step->state;
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = s->s.strips * s->s.segments;
  for (int64_t i = begin; i < end; i++) {
    unrolled_task task;
    const int64_t run = i % s->runs, strip = i / s->runs % strips;
    int64_t rest = i / s->runs / strips;
    const int64_t depth = rest % g->out[0];
    rest /= g->out[0];
    task.group = rest % g->groups;
    task.image = rest / g->groups;
    task.x = (const float *)step->in[ERT_UNROLLED_X]->data + task.image * s->x.image +
             task.group * g->channels * s->x.channel;
    task.strip = ert_sparse_strip_at(&s->s, depth, strip);
    const int64_t *ends = s->ends + task.group * s->runs;
    run_groups(s, step, &task, run > 0 ? ends[run - 1] : 0, ends[run], scratch);
  }
}

extern const ert_kernel ert_kernel_conv_unrolled;
const ert_kernel ert_kernel_conv_unrolled = {
    .name = "conv_unrolled", .prepare = unrolled_prepare, .run = unrolled_run, .views = true, .reduced = true};
