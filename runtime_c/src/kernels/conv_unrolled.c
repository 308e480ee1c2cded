/* conv_unrolled: convolution of planar activations with weights most of which are zero, the others becoming instructions. */
#include <inttypes.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/partition.h"
#include "kernels/unrolled_stream.h"

typedef struct unrolled_state {
  ert_unrolled_geometry s;
  const ert_simd *simd;
  ert_finish finish;
  ert_strides x, y, residual;
  ert_unrolled_stream stream;
  int64_t vectors;  /* of a strip, at most */
  int64_t runs;     /* of groups of filters: tasks of the same strip */
  int64_t *ends;    /* where they end in each group of the convolution */
  int64_t *filters; /* the first one of each group, of all of the convolution */
  int32_t *offsets;
  uint16_t *columns;
  size_t widened_at, sums_at, runs_at, vectors_at, masks_at; /* in scratch, bytes */
} unrolled_state;

static const ert_tensor *operand(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

/* Room for n elements of `size` bytes behind what there is. */
static bool reserve(size_t *end, size_t n, size_t size, size_t *at) {
  size_t bytes;
  return ert_align_up(*end, 64, at) && ert_multiply(n, size, &bytes) && ert_add(*at, bytes, end);
}

/* Scratch: the lines of a tile, widened values, sums, what is copied, and vectors with their masks. */
static bool lay_out(unrolled_state *s, size_t *inputs, size_t *bytes) {
  const ert_unrolled_geometry *g = &s->s;
  const size_t vectors = (size_t)s->vectors, runs = g->in_place ? 0 : (size_t)ert_unrolled_runs(g);
  const size_t filters = g->tiles > 1 ? (size_t)s->stream.each * ERT_UNROLLED_FILTERS : 0;
  const size_t widened = s->stream.weights == ERT_WEIGHTS_F32 ? 0 : (size_t)s->stream.n_values + ERT_UNROLLED_LANES;
  size_t sums, unused;
  *inputs = *bytes = 0;
  if (!g->in_place && (!ert_multiply((size_t)g->channel, (size_t)g->tile, inputs) ||
                       !reserve(bytes, *inputs + ERT_SPARSE_SLACK, sizeof(float), &unused)))
    return false;
  return ert_multiply(vectors * ERT_UNROLLED_LANES, filters, &sums) &&
         reserve(bytes, widened, sizeof(float), &s->widened_at) && reserve(bytes, sums, sizeof(float), &s->sums_at) &&
         reserve(bytes, runs, sizeof(ert_sparse_run), &s->runs_at) &&
         reserve(bytes, vectors, sizeof(ert_unrolled_vector), &s->vectors_at) &&
         reserve(bytes, vectors * (size_t)g->taps, sizeof(uint16_t), &s->masks_at);
}

/* Tasks: strips, and runs of groups of filters where strips are too few for the workers. */
static void cut(ert_prepare *p, unrolled_state *s) {
  const ert_conv_geometry *g = &s->s.g;
  const int64_t strips = g->batch * g->groups * g->out[0] * s->s.strips;
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

/* The step's state, with the tables that tasks need. */
static edgert_status keep(ert_prepare *p, const unrolled_state *state) {
  const ert_unrolled_geometry *g = &state->s;
  const size_t groups = (size_t)(g->g.groups * state->stream.each), ends = (size_t)(g->g.groups * state->runs);
  size_t bytes = sizeof *state, ends_at, filters_at, offsets_at, columns_at;
  unrolled_state *s;
  if (!reserve(&bytes, ends, sizeof *s->ends, &ends_at) || !reserve(&bytes, groups, sizeof *s->filters, &filters_at) ||
      !reserve(&bytes, (size_t)g->taps, sizeof *s->offsets, &offsets_at) ||
      !reserve(&bytes, (size_t)(g->pitch * (g->g.kernel[2] + 1)), sizeof *s->columns, &columns_at))
    return ert_reject(p, "taps and channels", "as many as memory can have", "more");
  ERT_TRY(ert_state(p, bytes, (void **)&s));
  *s = *state;
  s->ends = (int64_t *)(void *)((char *)s + ends_at);
  s->filters = (int64_t *)(void *)((char *)s + filters_at);
  s->offsets = (int32_t *)(void *)((char *)s + offsets_at);
  s->columns = (uint16_t *)(void *)((char *)s + columns_at);
  for (size_t i = 1; i < groups; i++)
    s->filters[i] = s->filters[i - 1] + ert_unrolled_group_at(&s->stream, 0, (int64_t)i - 1).filters;
  for (int64_t group = 0; group < g->g.groups; group++)
    ert_cut_by_work(s->stream.each, s->runs, work_of, &(group_work){s, group * s->stream.each},
                    s->ends + group * s->runs);
  ert_unrolled_list_columns(&s->s, s->columns);
  if (ert_unrolled_list_offsets(&s->s, &s->x, s->offsets)) return EDGERT_OK;
  return ert_reject(p, "inputs of a tile", "within 2 GiB", "farther apart");
}

static edgert_status unrolled_prepare(ert_prepare *p) {
  unrolled_state state = {.simd = p->simd};
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
  const int64_t width = y->shape[y->rank - 1];
  ERT_TRY(ert_unrolled_geometry_read(p, &state.x, state.y.row == width && state.residual.row == width, &state.s));
  ERT_TRY(ert_unrolled_stream_read(p, &state.s, &state.stream));
  const ert_tensor *residual = operand(p->step, ERT_UNROLLED_RESIDUAL);
  if (residual) ERT_TRY(ert_expect_same_type(p, y, residual));
  if (y->elements == 0) return EDGERT_OK;
  const ert_conv_geometry *g = &state.s.g;
  state.vectors = ert_unrolled_vectors(&state.s, state.s.rows);
  size_t inputs;
  if (!lay_out(&state, &inputs, &p->step->scratch_bytes))
    return ert_reject(p, "inputs of one strip", "fewer bytes than memory can have", "more");
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)inputs, (double)ert_volume(g->out) * (double)g->filters));
  cut(p, &state);
  if (p->simd->unrolled_bytes)
    p->step->code_bytes =
        p->simd->unrolled_bytes((size_t)state.s.taps, (size_t)state.stream.n_batches, (size_t)state.stream.n_values);
  return keep(p, &state);
}

/* A strip of the outputs of a group of an image. */
typedef struct unrolled_task {
  int64_t image, group, depth, row; /* group: of the convolution */
  const float *x;                   /* the group's first channel */
} unrolled_task;

static void copy_tile(const unrolled_state *s, const unrolled_task *task, int64_t tile, const ert_sparse_run *runs,
                      size_t n_runs, float *to) {
  const int64_t first = tile * s->s.tile;
  const ert_sparse_copy copy = {
      .x = task->x + first * s->x.channel,
      .x_channel = s->x.channel,
      .step = (size_t)s->s.g.stride[2],
      .runs = runs,
      .n_runs = n_runs,
      .channels = (size_t)ert_min64(s->s.tile, s->s.g.channels - first),
      .to = to,
  };
  s->simd->sparse_copy(&copy);
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
                       int64_t end, uint8_t *scratch) {
  const ert_unrolled_geometry *g = &s->s;
  const ert_tensor *bias = operand(step, ERT_UNROLLED_BIAS), *residual = operand(step, ERT_UNROLLED_RESIDUAL);
  const int64_t y_at = ert_position(&s->y, task->image, task->depth, task->row, 0);
  const int64_t residual_at = ert_position(&s->residual, task->image, task->depth, task->row, 0);
  ert_unrolled_vector *vectors = (ert_unrolled_vector *)(void *)(scratch + s->vectors_at);
  ert_sparse_run *runs = (ert_sparse_run *)(void *)(scratch + s->runs_at);
  uint16_t *masks = (uint16_t *)(void *)(scratch + s->masks_at);
  float *sums = (float *)(void *)(scratch + s->sums_at), *inputs = (float *)(void *)scratch;
  ert_unrolled u = {
      .offsets = s->offsets,
      .taps = (size_t)g->taps,
      .channel = (int32_t)(ert_unrolled_channel(g, &s->x) * 4),
      .vectors = vectors,
      .masks = masks,
      .n_vectors =
          ert_unrolled_list_vectors(g, &s->y, &s->residual, s->columns, task->depth, task->row, vectors, masks),
      .together = g->joined && g->pitch > g->g.out[2],
      .y_filter = s->y.channel,
      .residual_filter = s->residual.channel,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
      .code = step->executable ? scratch + step->code : NULL,
      .executable = step->executable,
  };
  const size_t n_runs = g->in_place ? 0 : ert_unrolled_list_runs(g, &s->x, task->depth, task->row, runs);
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    u.first = tile == 0;
    u.last = tile == g->tiles - 1;
    u.x = inputs;
    if (g->in_place)
      u.x = task->x + tile * g->tile * s->x.channel + task->depth * g->g.stride[0] * s->x.plane + task->row * s->x.row;
    else
      copy_tile(s, task, tile, runs, n_runs, inputs);
    u.fresh = true;
    for (int64_t i = first; i < end; i++, u.fresh = false) {
      const int64_t number = task->group * s->stream.each + i, filter = s->filters[number];
      const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, tile, number);
      u.n_filters = (size_t)group.filters;
      u.tap_batches = group.tap_batches;
      u.batches = s->stream.batches + group.batch;
      u.owners = s->stream.owners + group.value;
      u.n_values = (size_t)group.n_values;
      u.values = values_of(s, step, &group, (float *)(void *)(scratch + s->widened_at));
      u.bias = bias ? (const float *)bias->data + filter : NULL;
      u.sums = sums + (size_t)((i - first) * ERT_UNROLLED_FILTERS) * u.n_vectors * ERT_UNROLLED_LANES;
      u.y = (float *)step->out[0]->data + y_at + filter * s->y.channel;
      if (residual) u.residual = (const float *)residual->data + residual_at + filter * s->residual.channel;
      s->simd->unrolled(&u);
      if (u.last)
        ert_finish_stored(&s->finish, s->simd, u.y, u.n_filters, u.y_filter,
                          (size_t)ert_min64(g->rows, g->g.out[1] - task->row), s->y.row, (size_t)g->g.out[2]);
    }
  }
}

static void unrolled_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const unrolled_state *s = step->state;
  const ert_conv_geometry *g = &s->s.g;
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, strip = i / s->runs % s->s.strips;
    int64_t rest = i / s->runs / s->s.strips;
    unrolled_task task = {.depth = rest % g->out[0], .row = strip * s->s.rows};
    rest /= g->out[0];
    task.group = rest % g->groups;
    task.image = rest / g->groups;
    task.x = (const float *)step->in[ERT_UNROLLED_X]->data + task.image * s->x.image +
             task.group * g->channels * s->x.channel;
    const int64_t *ends = s->ends + task.group * s->runs;
    run_groups(s, step, &task, run > 0 ? ends[run - 1] : 0, ends[run], scratch);
  }
}

extern const ert_kernel ert_kernel_conv_unrolled;
const ert_kernel ert_kernel_conv_unrolled = {
    .name = "conv_unrolled",
    .prepare = unrolled_prepare,
    .run = unrolled_run,
    .views = true,
    .reduced = true,
    .generates = true,
};
