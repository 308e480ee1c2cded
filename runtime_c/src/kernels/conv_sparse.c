/* conv_sparse: convolution of planar activations with weights most of which are zero: only the others are stored. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/partition.h"
#include "kernels/sparse_geometry.h"

enum {
  SUMS_FLOATS = 160 * 1024, /* between tiles the sums of a block of filters stay in the second-level cache */
  ROW = 3,                  /* non-zeros that a row in a tile takes as long as, to begin and to end it */
};

typedef struct sparse_state {
  ert_sparse_geometry s;
  const ert_simd *simd;
  ert_finish finish;
  ert_strides x, y, residual;
  int64_t counts_tile, counts_row, starts_tile; /* elements between neighbours */
  int64_t runs, *ends; /* of filters: tasks of the same strip; where they end in each group, in 16 filters */
  int64_t block;       /* filters whose sums are kept between tiles */
  size_t sums_at, sums_filter, sums_chunk; /* in scratch: floats */
  ptrdiff_t columns[];
} sparse_state;

/* Operands of a step, by their places. */
enum { X, VALUES, INDICES, COUNTS, STARTS, BIAS, RESIDUAL, MOST_INPUTS };

static const ert_tensor *operand(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

/* In scratch any index finds a line; in x, where pointwise convolutions may read, not all are channels of the tile. */
static edgert_status prove_indices(const ert_prepare *p, const sparse_state *s, int64_t tile, int64_t first,
                                   int64_t count) {
  const uint8_t *indices = (const uint8_t *)p->step->in[INDICES]->data + first;
  const int64_t channels = ert_min64(s->s.tile, s->s.g.channels - tile * s->s.tile);
  uint8_t largest = 0;
  for (int64_t i = 0; i < count; i++) largest = indices[i] > largest ? indices[i] : largest;
  if (count > 0 && largest >= channels)
    return ert_reject(p, "index of a non-zero", "one of the channels of its tile", "%d of %" PRId64, largest, channels);
  return EDGERT_OK;
}

/* The non-zeros of a tile's filters follow one another within the stream, and every 16 filters begin where `starts` says. */
static edgert_status prove_stream(const ert_prepare *p, const sparse_state *s) {
  const ert_step *step = p->step;
  const int64_t stored = step->in[INDICES]->shape[0], filters = step->out[0]->shape[1], rows = 16 / s->s.together;
  const bool pointwise = ert_volume(s->s.g.kernel) == 1 && step->in[INDICES]->dtype == EDGERT_U8;
  for (int64_t tile = 0; tile < s->s.tiles; tile++) {
    int64_t ended = -1;
    for (int64_t block = 0; block * 16 < filters; block++) {
      const uint8_t *counts =
          (const uint8_t *)step->in[COUNTS]->data + tile * s->counts_tile + block * rows * s->counts_row;
      const int64_t start = ((const int32_t *)step->in[STARTS]->data)[tile * s->starts_tile + block];
      int64_t count = 0;
      for (int64_t k = 0; k < ert_min64(rows, filters / s->s.together - block * rows); k++)
        for (int64_t g = 0; g < s->s.groups; g++) count += counts[k * s->counts_row + g];
      if (start < 0 || start > stored || count > stored - start)
        return ert_reject(p, "non-zeros of a block of filters", "ones that are stored",
                          "%" PRId64 " from number %" PRId64 " on, of %" PRId64, count, start, stored);
      if (ended >= 0 && start != ended)
        return ert_reject(p, "start of a block of filters", "the end of the block before", "%" PRId64 ", not %" PRId64,
                          start, ended);
      ended = start + count;
      if (pointwise) ERT_TRY(prove_indices(p, s, tile, start, count));
    }
  }
  return EDGERT_OK;
}

static edgert_status expect_stream(const ert_prepare *p, const ert_sparse_geometry *s) {
  const ert_step *step = p->step;
  const int64_t filters = step->out[0]->shape[1];
  ERT_TRY(ert_expect_dtype(p, step->in[VALUES], EDGERT_F32));
  if (step->in[INDICES]->dtype != EDGERT_U16) ERT_TRY(ert_expect_dtype(p, step->in[INDICES], EDGERT_U8));
  ERT_TRY(ert_expect_dtype(p, step->in[COUNTS], EDGERT_U8));
  ERT_TRY(ert_expect_dtype(p, step->in[STARTS], EDGERT_I32));
  ERT_TRY(ert_expect_shape(p, step->in[VALUES], 1, step->in[VALUES]->shape));
  ERT_TRY(ert_expect_shape(p, step->in[INDICES], 1, (const int64_t[]){step->in[VALUES]->shape[0] / s->together}));
  ERT_TRY(ert_expect_shape(p, step->in[COUNTS], 3, (const int64_t[]){s->tiles, filters / s->together, s->groups}));
  ERT_TRY(ert_expect_shape(p, step->in[STARTS], 2, (const int64_t[]){s->tiles, ert_ceil_divide(filters, 16)}));
  if (!step->in[INDICES]->constant || !step->in[COUNTS]->constant || !step->in[STARTS]->constant)
    return ert_reject(p, "indices, counts and starts", "constants", "values that are computed");
  if (operand(step, BIAS)) {
    ERT_TRY(ert_expect_dtype(p, step->in[BIAS], EDGERT_F32));
    ERT_TRY(ert_expect_shape(p, step->in[BIAS], 1, &filters));
  }
  return operand(step, RESIDUAL) ? ert_expect_same_type(p, step->out[0], step->in[RESIDUAL]) : EDGERT_OK;
}

/* Scratch: the lines of a tile, as many more as an index can reach behind them, and sums; its size in floats. */
static bool lay_out(sparse_state *s, size_t *inputs, size_t *floats) {
  const ert_sparse_geometry *g = &s->s;
  const size_t line = (size_t)g->line, most = (size_t)s->simd->sparse_limits[g->together == 4].most;
  const int64_t chunks = ert_ceil_divide(g->rows, g->chunk);
  size_t size;
  if (!ert_multiply(line, (size_t)(g->tile * g->lines), inputs) ||
      !ert_multiply(line, (size_t)(g->most_lines + ERT_SPARSE_LINES), &size) || !ert_add(*inputs, size, &size) ||
      !ert_add(size, (size_t)g->reach + most + ERT_SPARSE_SLACK, &size) || !ert_align_up(size, 16, &s->sums_at))
    return false;
  if (g->in_place) s->sums_at = 0;
  s->sums_filter = (most + 15) / 16 * 16;
  const int64_t columns = g->segments > 1 ? ert_ceil_divide(g->g.out[2], g->segments) + g->unit : g->g.out[2];
  const size_t summed = (size_t)(ert_ceil_divide(ert_sparse_floats(g, g->chunk, columns), 16) * 16);
  if (summed < s->sums_filter) s->sums_filter = summed;
  s->block = g->g.filters;
  if (g->tiles > 1) {
    s->block = ert_min64(s->block, ert_max64(SUMS_FLOATS / (int64_t)s->sums_filter / chunks / 16 * 16, 16));
    s->sums_chunk = (size_t)s->block * s->sums_filter;
    size = s->sums_chunk * (size_t)chunks;
  } else {
    size = 0;
  }
  return ert_add(s->sums_at, size, floats) && *floats <= SIZE_MAX / 64;
}

/* Tasks: strips, and runs of filters where strips are too few for the workers. */
static void cut(ert_prepare *p, sparse_state *s) {
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = g->batch * g->groups * g->out[0] * s->s.strips * s->s.segments;
  const double products = (double)p->step->in[VALUES]->elements * (double)ert_volume(g->out) * (double)g->batch;
  s->runs = ert_min64(ert_pieces(strips, products, p->workers), ert_ceil_divide(g->filters, 16));
  p->step->tasks = strips * s->runs;
}

/* The filters of a group. */
typedef struct group_filters {
  const sparse_state *s;
  const ert_tensor *counts;
  int64_t first; /* of all filters */
} group_filters;

/* What 16 of them take, in non-zeros. */
static int64_t work_of(const void *of, int64_t unit) {
  const group_filters *f = of;
  const sparse_state *s = f->s;
  const int64_t begin = unit * 16, end = ert_min64(begin + 16, s->s.g.filters);
  int64_t work = 0;
  for (int64_t tile = 0; tile < s->s.tiles; tile++)
    for (int64_t k = f->first + begin; k < f->first + end; k += s->s.together) {
      const uint8_t *counts =
          (const uint8_t *)f->counts->data + tile * s->counts_tile + k / s->s.together * s->counts_row;
      for (int64_t g = 0; g < s->s.groups; g++) work += counts[g];
      work += ROW;
    }
  return work;
}

static edgert_status sparse_prepare(ert_prepare *p) {
  sparse_state state = {.simd = p->simd}, *s;
  ert_activation activation;
  ERT_TRY(ert_expect_operands(p, STARTS + 1, MOST_INPUTS, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  ERT_TRY(ert_activation_read(p, &activation));
  ert_allow_in_place(p, RESIDUAL);
  const ert_tensor *x = p->step->in[X], *y = p->step->out[0];
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  state.finish = ert_finish_of(activation);
  ert_strides_of_step(p->step, RESIDUAL, &state.x, &state.y, &state.residual);
  int64_t out[3] = {1, 1, 1};
  for (int i = 2; i < y->rank; i++) out[i + 3 - y->rank] = y->shape[i];
  const bool joined = ert_positions_joined(&state.y, out) && ert_positions_joined(&state.residual, out);
  ERT_TRY(ert_sparse_geometry_read(p, joined, &state.s));
  ERT_TRY(expect_stream(p, &state.s));
  if (y->elements == 0) return EDGERT_OK;
  state.counts_tile = ert_stride(p->step->in[COUNTS], 0);
  state.counts_row = ert_stride(p->step->in[COUNTS], 1);
  state.starts_tile = ert_stride(p->step->in[STARTS], 0);
  ERT_TRY(prove_stream(p, &state));
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
    ert_cut_by_work(ert_ceil_divide(g->filters, 16), s->runs, work_of,
                    &(group_filters){s, p->step->in[COUNTS], group * g->filters}, s->ends + group * s->runs);
  p->step->scratch_bytes = floats * sizeof(float);
  return EDGERT_OK;
}

/* Where in the stream the non-zeros of a filter in a tile begin. */
static int64_t position_of(const sparse_state *s, const ert_step *step, int64_t tile, int64_t filter) {
  const uint8_t *counts = (const uint8_t *)step->in[COUNTS]->data + tile * s->counts_tile;
  int64_t at = ((const int32_t *)step->in[STARTS]->data)[tile * s->starts_tile + filter / 16];
  for (int64_t k = filter / 16 * 16; k < filter; k += s->s.together)
    for (int64_t g = 0; g < s->s.groups; g++) at += counts[k / s->s.together * s->counts_row + g];
  return at;
}

/* A strip of the outputs of a group of an image, and what is copied for it of each channel. */
typedef struct sparse_task {
  ert_sparse_strip strip;
  int64_t image;
  const float *x; /* the group's first channel */
  size_t n_runs;
  ert_sparse_run runs[ERT_SPARSE_RUNS];
} sparse_task;

/* Copies the inputs of a tile, and the zeros that the first of the lines behind them begins with. */
static void copy_tile(const sparse_state *s, const sparse_task *task, int64_t tile, float *to) {
  const int64_t first = tile * s->s.tile, channels = ert_min64(s->s.tile, s->s.g.channels - first);
  const ert_sparse_copy copy = {
      .x = task->x + first * s->x.channel,
      .x_channel = s->x.channel,
      .step = (size_t)s->s.g.stride[2],
      .runs = task->runs,
      .n_runs = task->n_runs,
      .channels = (size_t)channels,
      .to = to,
  };
  s->simd->sparse_copy(&copy);
  memset(to + channels * s->s.lines * s->s.line, 0, (size_t)s->s.line * sizeof(float));
}

/* Outputs of filters [filter, filter + count) of a strip of an image; `filter` counts those of all groups. */
static void run_block(const sparse_state *s, const ert_step *step, const sparse_task *task, int64_t filter,
                      int64_t count, float *scratch) {
  const ert_sparse_strip *strip = &task->strip;
  const ert_tensor *bias = operand(step, BIAS), *residual = operand(step, RESIDUAL);
  const ert_sparse_geometry *g = &s->s;
  const bool wide = step->in[INDICES]->dtype == EDGERT_U16;
  ert_sparse d = {
      .line = (size_t)(g->in_place ? s->x.channel : g->line),
      .wide = wide,
      .together = (size_t)g->together,
      .counts_row = s->counts_row,
      .columns = s->columns,
      .groups = (size_t)g->groups,
      .shift = g->shift,
      .bias = bias ? (const float *)bias->data + filter : NULL,
      .sums_filter = s->sums_filter,
      .y_filter = s->y.channel,
      .y_row = s->y.row,
      .residual_filter = s->residual.channel,
      .residual_row = s->residual.row,
      .filters = (size_t)count,
      .pixels = (size_t)strip->columns,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
  };
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    const int64_t at = position_of(s, step, tile, filter);
    d.values = (const float *)step->in[VALUES]->data + at * g->together;
    d.indices = (const uint8_t *)step->in[INDICES]->data + at * (wide ? 2 : 1);
    d.counts = (const uint8_t *)step->in[COUNTS]->data + tile * s->counts_tile + filter / g->together * s->counts_row;
    d.first = tile == 0;
    d.last = tile == g->tiles - 1;
    if (!g->in_place) copy_tile(s, task, tile, scratch);
    for (int64_t row = 0; row < strip->rows; row += g->chunk) {
      const int64_t y_row = strip->row + row;
      d.rows = (size_t)ert_min64(g->chunk, strip->rows - row);
      d.floats = (size_t)ert_sparse_floats(g, (int64_t)d.rows, strip->columns);
      d.x = g->in_place ? task->x + tile * g->tile * s->x.channel + strip->column : scratch + row * g->line;
      d.sums = scratch + s->sums_at + (size_t)(row / g->chunk) * s->sums_chunk;
      d.y = (float *)step->out[0]->data + ert_position(&s->y, task->image, strip->depth, y_row, strip->column) +
            filter * s->y.channel;
      if (residual)
        d.residual = (const float *)residual->data +
                     ert_position(&s->residual, task->image, strip->depth, y_row, strip->column) +
                     filter * s->residual.channel;
      s->simd->sparse(&d);
      if (d.last) ert_finish_stored(&s->finish, s->simd, d.y, d.filters, d.y_filter, d.rows, d.y_row, d.pixels);
    }
  }
}

static void sparse_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const sparse_state *s = step->state;
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = s->s.strips * s->s.segments;
  sparse_task task;
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, strip = i / s->runs % strips;
    int64_t rest = i / s->runs / strips;
    const int64_t depth = rest % g->out[0];
    rest /= g->out[0];
    const int64_t group = rest % g->groups;
    task.image = rest / g->groups;
    task.x = (const float *)step->in[X]->data + task.image * s->x.image + group * g->channels * s->x.channel;
    task.strip = ert_sparse_strip_at(&s->s, depth, strip);
    if (!s->s.in_place) task.n_runs = ert_sparse_runs(&s->s, &s->x, &task.strip, task.runs);
    const int64_t *ends = s->ends + group * s->runs, last = ert_min64(ends[run] * 16, g->filters);
    for (int64_t k = run > 0 ? ends[run - 1] * 16 : 0; k < last; k += s->block)
      run_block(s, step, &task, group * g->filters + k, ert_min64(s->block, last - k), scratch);
  }
}

extern const ert_kernel ert_kernel_conv_sparse;
const ert_kernel ert_kernel_conv_sparse = {
    .name = "conv_sparse", .prepare = sparse_prepare, .run = sparse_run, .views = true};
