/* conv_sparse: convolution of planar activations with weights most of which are zero: only the others are stored. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/partition.h"
#include "kernels/sparse_stream.h"

enum {
  SUMS_FLOATS = 160 * 1024, /* between tiles the sums of a block of filters stay in the second-level cache */
  ROW = 3,                  /* non-zeros that a row in a tile takes as long as, to begin and to end it */
  WIDENED = 256,            /* values of 16 bits that are widened at once, and those of up to a unit of filters more */
};

typedef struct sparse_state {
  ert_sparse_geometry s;
  const ert_simd *simd;
  ert_finish finish;
  ert_strides x, y, residual;
  ert_sparse_stream stream;
  int64_t runs, *ends; /* of filters: tasks of the same strip; where they end in each group, in units */
  int64_t block;       /* filters whose sums are kept between tiles */
  size_t tails_at, widened_at, sums_at, sums_filter, sums_chunk, tail_sums_at, runs_at,
      lists_at; /* in scratch: floats */
  ptrdiff_t columns[];
} sparse_state;

static const ert_tensor *operand(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

/* Scratch: the lines of a tile, as many more as an index can reach behind them, their tails, widened values, sums, and what
 * is copied; its size in floats. */
static bool lay_out(sparse_state *s, size_t *inputs, size_t *floats) {
  const ert_sparse_geometry *g = &s->s;
  const size_t line = (size_t)g->line, most = (size_t)s->simd->sparse_limits[g->together == 4].most;
  const int64_t chunks = ert_ceil_divide(g->rows, g->chunk), unit = s->stream.unit;
  size_t size;
  if (!ert_multiply(line, (size_t)(g->tile * g->lines), inputs) ||
      !ert_multiply(line, (size_t)(g->behind + ERT_SPARSE_LINES), &size) || !ert_add(*inputs, size, &size) ||
      !ert_add(size, (size_t)g->reach + most + ERT_SPARSE_SLACK, &size) || !ert_align_up(size, 16, &s->tails_at))
    return false;
  s->sums_at = s->tails_at;
  if (g->tailed) s->sums_at += (size_t)(g->tile * g->lines + g->behind) * ERT_SPARSE_TAIL + ERT_SPARSE_SLACK;
  s->sums_at = (s->sums_at + 15) / 16 * 16;
  s->widened_at = g->in_place ? 0 : s->sums_at;
  s->sums_at = s->widened_at;
  if (s->stream.weights != ERT_WEIGHTS_F32)
    s->sums_at += (size_t)(WIDENED + ert_ceil_divide(s->stream.longest * s->stream.each, 16) * 16);
  s->sums_filter = (most + 15) / 16 * 16;
  const int64_t columns = g->segments > 1 ? ert_ceil_divide(g->g.out[2], g->segments) + g->unit : g->g.out[2];
  const size_t summed = (size_t)(ert_ceil_divide(ert_sparse_floats(g, g->chunk, columns), 16) * 16);
  if (summed < s->sums_filter) s->sums_filter = summed;
  s->block = g->g.filters;
  if (g->tiles > 1) {
    s->block = ert_min64(s->block, ert_max64(SUMS_FLOATS / (int64_t)s->sums_filter / chunks / unit * unit, unit));
    s->sums_chunk = (size_t)s->block * s->sums_filter;
    size = s->sums_chunk * (size_t)chunks;
  } else {
    size = 0;
  }
  if (!ert_add(s->sums_at, size, &s->tail_sums_at)) return false;
  s->runs_at = s->tail_sums_at;
  if (g->tailed && g->tiles > 1) s->runs_at += (size_t)s->block * ERT_SPARSE_TAIL;
  size = g->in_place ? 0 : (size_t)g->runs * (sizeof(ert_sparse_run) / sizeof(float));
  if (!ert_add(s->runs_at, size, &size) || !ert_align_up(size, 16, &s->lists_at)) return false;
  size = g->in_place || g->tiles == 1 ? 0 : 2 * ERT_SPARSE_LIST / sizeof(float);
  return ert_add(s->lists_at, size, floats) && *floats <= SIZE_MAX / 64;
}

/* Tasks: strips, and runs of filters where strips are too few for the workers. */
static void cut(ert_prepare *p, sparse_state *s) {
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = g->batch * g->groups * g->out[0] * s->s.strips * s->s.segments;
  const double products =
      (double)p->step->in[ERT_SPARSE_VALUES]->elements * (double)ert_volume(g->out) * (double)g->batch;
  s->runs = ert_min64(ert_pieces(strips, products, p->workers), ert_ceil_divide(g->filters, s->stream.unit));
  p->step->tasks = strips * s->runs;
}

/* The filters of a group. */
typedef struct group_filters {
  const sparse_state *s;
  int64_t first; /* of all filters */
} group_filters;

/* What a unit of them takes, in entries. */
static int64_t work_of(const void *of, int64_t unit) {
  const group_filters *f = of;
  const sparse_state *s = f->s;
  const int64_t begin = f->first + unit * s->stream.unit;
  const int64_t end = ert_min64(begin + s->stream.unit, f->first + s->s.g.filters);
  int64_t work = s->s.tiles * (end - begin) * ROW / s->stream.each;
  for (int64_t tile = 0; tile < s->s.tiles; tile++)
    work += ert_sparse_position(&s->stream, tile, end) - ert_sparse_position(&s->stream, tile, begin);
  return work;
}

static edgert_status sparse_prepare(ert_prepare *p) {
  sparse_state state = {.simd = p->simd}, *s;
  ert_activation activation;
  ERT_TRY(ert_expect_operands(p, ERT_SPARSE_BIAS, ERT_SPARSE_OPERANDS, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  ERT_TRY(ert_activation_read(p, &activation));
  ert_allow_in_place(p, ERT_SPARSE_RESIDUAL);
  const ert_tensor *x = p->step->in[ERT_SPARSE_X], *y = p->step->out[0];
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  state.finish = ert_finish_of(activation);
  ert_strides_of_step(p->step, ERT_SPARSE_RESIDUAL, &state.x, &state.y, &state.residual);
  int64_t out[3] = {1, 1, 1};
  for (int i = 2; i < y->rank; i++) out[i + 3 - y->rank] = y->shape[i];
  const bool joined = ert_positions_joined(&state.y, out) && ert_positions_joined(&state.residual, out);
  ERT_TRY(ert_sparse_geometry_read(p, joined, &state.s));
  ERT_TRY(ert_sparse_stream_read(p, &state.s, &state.stream));
  const ert_tensor *residual = operand(p->step, ERT_SPARSE_RESIDUAL);
  if (residual) ERT_TRY(ert_expect_same_type(p, y, residual));
  if (y->elements == 0) return EDGERT_OK;
  size_t inputs, floats;
  if (!lay_out(&state, &inputs, &floats))
    return ert_reject(p, "inputs of one strip", "fewer bytes than memory can have", "more");
  const double positions = (double)ert_volume(state.s.g.out);
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)inputs, positions * (double)state.s.g.filters));
  cut(p, &state);
  const ert_conv_geometry *g = &state.s.g;
  const size_t columns = (size_t)state.s.groups * sizeof *s->columns;
  ERT_TRY(ert_state(p, sizeof *s + columns + (size_t)(g->groups * state.runs) * sizeof *s->ends, (void **)&s));
  *s = state;
  ert_sparse_columns(&s->s, s->columns);
  s->ends = (int64_t *)((char *)s->columns + columns);
  for (int64_t group = 0; group < g->groups; group++)
    ert_cut_by_work(ert_ceil_divide(g->filters, s->stream.unit), s->runs, work_of,
                    &(group_filters){s, group * g->filters}, s->ends + group * s->runs);
  p->step->scratch_bytes = floats * sizeof(float);
  return EDGERT_OK;
}

static edgert_status sparse_prove(const ert_prepare *p) {
  const sparse_state *s = p->step->state;
  return ert_sparse_stream_prove(p, &s->s, &s->stream);
}

/* A strip of the outputs of a group of an image, and what is copied for it of each channel: the runs of its lines, and those
 * of their tails. */
typedef struct sparse_task {
  ert_sparse_strip strip;
  int64_t image;
  const float *x; /* the group's first channel */
  size_t n_runs, n_tails;
  ert_sparse_run *runs;
  uint64_t (*lists)[ERT_SPARSE_LIST / sizeof(uint64_t)]; /* of both, for all tiles; NULL if there is one */
} sparse_task;

static void list_runs(const sparse_state *s, sparse_task *task) {
  ert_sparse_strip lines = task->strip, tails = task->strip;
  if (s->s.tailed) lines.columns = s->s.line;
  task->n_runs = ert_sparse_runs(&s->s, &s->x, &lines, s->s.line, task->runs);
  tails.column += lines.columns, tails.columns -= lines.columns;
  task->n_tails = 0;
  if (s->s.tailed) task->n_tails = ert_sparse_runs(&s->s, &s->x, &tails, ERT_SPARSE_TAIL, task->runs + task->n_runs);
  if (task->lists) task->lists[0][0] = task->lists[1][0] = 0;
}

/* Copies the inputs of a tile, and the zeros that the first of the lines behind them begins with. */
static void copy_tile(const sparse_state *s, const sparse_task *task, int64_t tile, float *scratch) {
  const int64_t first = tile * s->s.tile, channels = ert_min64(s->s.tile, s->s.g.channels - first);
  ert_sparse_copy copy = {
      .x = task->x + first * s->x.channel,
      .x_channel = s->x.channel,
      .step = (size_t)s->s.g.stride[2],
      .runs = task->runs,
      .n_runs = task->n_runs,
      .channels = (size_t)channels,
      .to = scratch,
      .list = task->lists,
  };
  s->simd->sparse_copy(&copy);
  memset(scratch + channels * s->s.lines * s->s.line, 0, (size_t)s->s.line * sizeof(float));
  if (!s->s.tailed) return;
  copy.runs += task->n_runs, copy.n_runs = task->n_tails;
  copy.to = scratch + s->tails_at;
  if (task->lists) copy.list = task->lists + 1;
  s->simd->sparse_copy(&copy);
}

/* The values from number `at` on as floats: of filters from `filter` on up to `end`, or of as many as are widened at
 * once. Their end is `*next`. */
static const float *values_of(const sparse_state *s, const ert_step *step, int64_t tile, int64_t at, int64_t filter,
                              int64_t end, int64_t *next, float *widened) {
  const ert_tensor *values = step->in[ERT_SPARSE_VALUES];
  const int64_t each = s->stream.each;
  *next = end;
  if (s->stream.weights == ERT_WEIGHTS_F32) return (const float *)values->data + at * each;
  int64_t n = 0;
  for (*next = filter; *next < end && n < WIDENED;) {
    *next = ert_min64(*next + s->stream.unit, end);
    n = (ert_sparse_position(&s->stream, tile, *next) - at) * each;
  }
  s->simd->sparse_widen(s->stream.weights, (const uint16_t *)values->data + at * each, widened, (size_t)n);
  return widened;
}

/* The rows of a strip, as far as a tile adds to them: `filter` counts those of all groups, and `before` have sums before
 * it. */
static void run_rows(const sparse_state *s, const ert_step *step, const sparse_task *task, int64_t tile, int64_t filter,
                     int64_t before, float *scratch, ert_sparse *d) {
  const ert_sparse_strip *strip = &task->strip;
  const ert_sparse_geometry *g = &s->s;
  const ert_tensor *residual = operand(step, ERT_SPARSE_RESIDUAL);
  for (int64_t row = 0; row < strip->rows; row += g->chunk) {
    const int64_t y_row = strip->row + row;
    d->rows = (size_t)ert_min64(g->chunk, strip->rows - row);
    d->floats = (size_t)ert_sparse_floats(g, (int64_t)d->rows, strip->columns);
    d->x = g->in_place ? task->x + tile * g->tile * s->x.channel + strip->column : scratch + row * g->line;
    d->sums = scratch + s->sums_at + (size_t)(row / g->chunk) * s->sums_chunk + (size_t)before * s->sums_filter;
    d->sums_tail = scratch + s->tail_sums_at + before * ERT_SPARSE_TAIL;
    d->y = (float *)step->out[0]->data + ert_position(&s->y, task->image, strip->depth, y_row, strip->column) +
           filter * s->y.channel;
    if (residual)
      d->residual = (const float *)residual->data +
                    ert_position(&s->residual, task->image, strip->depth, y_row, strip->column) +
                    filter * s->residual.channel;
    s->simd->sparse(d);
    if (d->last) ert_finish_stored(&s->finish, s->simd, d->y, d->filters, d->y_filter, d->rows, d->y_row, d->pixels);
  }
}

/* Outputs of filters [first, end) of a strip of an image, counted among those of all groups. */
static void run_block(const sparse_state *s, const ert_step *step, const sparse_task *task, int64_t first, int64_t end,
                      float *scratch) {
  const ert_tensor *bias = operand(step, ERT_SPARSE_BIAS);
  const ert_sparse_geometry *g = &s->s;
  const ert_sparse_stream *stream = &s->stream;
  ert_sparse d = {
      .line = (size_t)(g->in_place ? s->x.channel : g->line),
      .indexed = g->indexed,
      .together = (size_t)g->together,
      .x_tail = g->tailed ? scratch + s->tails_at : NULL,
      .deep = g->deep == 1 ? 0 : (size_t)(g->in_place ? s->x.channel : g->lines * g->line),
      .counts_row = stream->counts_row,
      .sorted = stream->sorted,
      .columns = s->columns,
      .groups = (size_t)g->groups,
      .shift = g->shift,
      .sums_filter = s->sums_filter,
      .y_filter = s->y.channel,
      .y_row = s->y.row,
      .residual_filter = s->residual.channel,
      .residual_row = s->residual.row,
      .pixels = (size_t)task->strip.columns,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
  };
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    d.first = tile == 0;
    d.last = tile == g->tiles - 1;
    if (!g->in_place) copy_tile(s, task, tile, scratch);
    for (int64_t filter = first, next; filter < end; filter = next) {
      const int64_t at = ert_sparse_position(stream, tile, filter);
      d.values = values_of(s, step, tile, at, filter, end, &next, scratch + s->widened_at);
      d.indices = stream->indices + at * (int64_t)ert_sparse_index_bytes(g->indexed);
      d.counts = stream->counts + tile * stream->counts_tile + filter / g->together * stream->counts_row;
      d.bias = bias ? (const float *)bias->data + filter : NULL;
      d.filters = (size_t)(next - filter);
      run_rows(s, step, task, tile, filter, filter - first, scratch, &d);
    }
  }
}

static void sparse_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const sparse_state *s = step->state;
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = s->s.strips * s->s.segments;
  sparse_task task = {.runs = (ert_sparse_run *)(void *)((float *)scratch + s->runs_at)};
  if (s->s.tiles > 1) task.lists = (void *)((float *)scratch + s->lists_at);
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, strip = i / s->runs % strips;
    int64_t rest = i / s->runs / strips;
    const int64_t depth = rest % g->out[0];
    rest /= g->out[0];
    const int64_t group = rest % g->groups;
    task.image = rest / g->groups;
    task.x = (const float *)step->in[ERT_SPARSE_X]->data + task.image * s->x.image + group * g->channels * s->x.channel;
    task.strip = ert_sparse_strip_at(&s->s, depth, strip);
    if (!s->s.in_place) list_runs(s, &task);
    const int64_t *ends = s->ends + group * s->runs, first = group * g->filters;
    const int64_t unit = s->stream.unit, last = first + ert_min64(ends[run] * unit, g->filters);
    for (int64_t k = first + (run > 0 ? ends[run - 1] * unit : 0); k < last; k += s->block)
      run_block(s, step, &task, k, ert_min64(k + s->block, last), scratch);
  }
}

extern const ert_kernel ert_kernel_conv_sparse;
const ert_kernel ert_kernel_conv_sparse = {
    .name = "conv_sparse",
    .prepare = sparse_prepare,
    .prove = sparse_prove,
    .run = sparse_run,
    .views = true,
    .reduced = true,
};
