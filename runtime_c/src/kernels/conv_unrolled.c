/* conv_unrolled: convolution of planar activations with weights most of which are zero, the others becoming instructions. */
#include <inttypes.h>

#include "base/checked.h"
#include "base/made.h"
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
  bool far;         /* inputs are read in place, and those of a strip come from memory, set by set */
  int64_t runs;     /* of groups of filters: tasks of the same strip */
  int64_t *ends;    /* where they end in each group of the convolution */
  int64_t *filters; /* the first one of each group, of all of the convolution */
  int32_t *bodies;  /* of instructions that are made once: where those of each group are, from the step's first ones */
  int32_t *offsets;
  uint16_t *columns;
  size_t listed;                /* vectors of all strips, if they are few: they are listed once, not by each task, */
  ert_unrolled_vector *listing; /* as many for each strip as it has at most */
  uint16_t *masks;
  size_t kept_at, widened_at, sums_at, runs_at, vectors_at, masks_at; /* in scratch, bytes */
} unrolled_state;

static const ert_tensor *operand(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

/* Floats of the inputs that are copied, packed ones with room for the channels that are packed at once. */
static bool copied_floats(const ert_unrolled_geometry *g, size_t *floats) {
  *floats = 0;
  if (g->in_place) return true;
  const size_t each = (size_t)(g->packed ? g->apart : g->rowed ? g->plane : g->channel);
  const size_t count = (size_t)(g->packed  ? g->plane / ERT_UNROLLED_LANES
                                : g->rowed ? ert_unrolled_planes(g)
                                           : g->tile);
  return ert_multiply(each, count, floats) &&
         ert_add(*floats, g->packed ? (size_t)g->plane * ERT_UNROLLED_PACKED : 0, floats) &&
         ert_add(*floats, ERT_SPARSE_SLACK, floats);
}

/* Scratch: the lines of a tile, kept channels, widened values, sums, what is copied, and vectors that a task lists. */
static bool lay_out(unrolled_state *s, size_t *inputs, size_t *bytes) {
  const ert_unrolled_geometry *g = &s->s;
  const size_t vectors = (size_t)s->vectors, runs = g->in_place ? 0 : (size_t)ert_unrolled_runs(g);
  const size_t own = s->listed ? 0 : vectors;
  const size_t filters = g->tiles > 1 ? (size_t)s->stream.each * ERT_UNROLLED_FILTERS : 0;
  const size_t set = g->room / sizeof(float), one = (size_t)s->stream.n_values;
  const size_t values = (set > one ? set : one) + ERT_UNROLLED_SET * ERT_UNROLLED_LANES;
  size_t sums, unused;
  *bytes = 0;
  return copied_floats(g, inputs) && ert_reserve(bytes, *inputs, sizeof(float), &unused) &&
         ert_multiply(vectors * ERT_UNROLLED_LANES, filters, &sums) &&
         ert_reserve(bytes, g->kept ? (size_t)g->tile : 0, ERT_UNROLLED_LINE, &s->kept_at) &&
         ert_reserve(bytes, s->stream.weights == ERT_WEIGHTS_F32 ? 0 : values, sizeof(float), &s->widened_at) &&
         ert_reserve(bytes, sums, sizeof(float), &s->sums_at) &&
         ert_reserve(bytes, runs, sizeof(ert_sparse_run), &s->runs_at) &&
         ert_reserve(bytes, own, sizeof(ert_unrolled_vector), &s->vectors_at) &&
         ert_reserve(bytes, own * (size_t)g->taps, sizeof(uint16_t), &s->masks_at);
}

/* How many vectors all strips have, if a few pages can list them; else 0. */
static size_t few_vectors(const unrolled_state *s) {
  enum { ROOM = 16 << 10 };
  const size_t strips = (size_t)(s->s.g.out[0] * s->s.strips), vectors = (size_t)s->vectors;
  const size_t each = sizeof(ert_unrolled_vector) + (size_t)s->s.taps * sizeof(uint16_t);
  return strips <= ROOM && vectors <= ROOM / each / strips ? strips * vectors : 0;
}

/* Whether no cache may be expected to hold the inputs of a strip from set to set. */
static bool is_far(const unrolled_state *s) {
  enum { FAR_FLOATS = 1 << 20 };
  return s->s.in_place && s->vectors * ERT_UNROLLED_LANES >= FAR_FLOATS / ert_max64(s->s.g.channels, 1);
}

/* Memory for the instructions of a set, or of the largest group. */
static size_t code_bytes(const unrolled_state *s) {
  enum { FETCHED = 28 }; /* bytes that fetch the inputs of a batch */
  const ert_unrolled_geometry *g = &s->s;
  if (!s->simd->unrolled_bytes) return 0;
  const size_t one = s->simd->unrolled_bytes((size_t)g->taps, (size_t)s->stream.n_batches, (size_t)s->stream.n_values,
                                             g->kept ? (size_t)g->tile : 0);
  const size_t fetched = s->far ? ((size_t)s->stream.n_batches + ERT_UNROLLED_SET) * FETCHED : 0;
  return ERT_UNROLLED_FRAME + (g->room > one ? g->room : one) + fetched;
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

/* The vectors and masks of the strip of a depth that begins at a row. */
static size_t list(const unrolled_state *s, int64_t depth, int64_t row, ert_unrolled_vector *vectors, uint16_t *masks) {
  return ert_unrolled_list_vectors(&s->s, &s->y, &s->residual, s->columns, depth, row, vectors, masks);
}

/* The step's state, with the tables that tasks need. */
static edgert_status keep(ert_prepare *p, const unrolled_state *state) {
  const ert_unrolled_geometry *g = &state->s;
  const size_t groups = (size_t)(g->g.groups * state->stream.each), ends = (size_t)(g->g.groups * state->runs);
  size_t bytes = sizeof *state, ends_at, filters_at, bodies_at, offsets_at, columns_at, listing_at, masks_at;
  unrolled_state *s;
  if (!ert_reserve(&bytes, ends, sizeof *s->ends, &ends_at) ||
      !ert_reserve(&bytes, groups, sizeof *s->filters, &filters_at) ||
      !ert_reserve(&bytes, groups, sizeof *s->bodies, &bodies_at) ||
      !ert_reserve(&bytes, (size_t)g->taps, sizeof *s->offsets, &offsets_at) ||
      !ert_reserve(&bytes, (size_t)(g->pitch * (g->g.kernel[2] + 1)), sizeof *s->columns, &columns_at) ||
      !ert_reserve(&bytes, state->listed, sizeof *s->listing, &listing_at) ||
      !ert_reserve(&bytes, state->listed * (size_t)g->taps, sizeof *s->masks, &masks_at))
    return ert_reject(p, "taps and channels", "as many as memory can have", "more");
  ERT_TRY(ert_state(p, bytes, (void **)&s));
  *s = *state;
  s->ends = (int64_t *)(void *)((char *)s + ends_at);
  s->filters = (int64_t *)(void *)((char *)s + filters_at);
  s->bodies = (int32_t *)(void *)((char *)s + bodies_at);
  s->offsets = (int32_t *)(void *)((char *)s + offsets_at);
  s->columns = (uint16_t *)(void *)((char *)s + columns_at);
  s->listing = (ert_unrolled_vector *)(void *)((char *)s + listing_at);
  s->masks = (uint16_t *)(void *)((char *)s + masks_at);
  for (size_t i = 1; i < groups; i++)
    s->filters[i] = s->filters[i - 1] + ert_unrolled_group_at(&s->stream, 0, (int64_t)i - 1).filters;
  for (int64_t group = 0; group < g->g.groups; group++)
    ert_cut_by_work(s->stream.each, s->runs, work_of, &(group_work){s, group * s->stream.each},
                    s->ends + group * s->runs);
  ert_unrolled_list_columns(&s->s, s->columns);
  for (size_t at = 0; at < s->listed; at += (size_t)s->vectors) {
    const int64_t strip = (int64_t)at / s->vectors;
    (void)list(s, strip / g->strips, strip % g->strips * g->rows, s->listing + at, s->masks + at * (size_t)g->taps);
  }
  if (ert_unrolled_list_offsets(&s->s, &s->x, s->offsets)) return EDGERT_OK;
  return ert_reject(p, "inputs of a tile", "within 2 GiB", "farther apart");
}

/* What all groups have in all strips, where there is one tile. */
static ert_unrolled common(const unrolled_state *s, const ert_step *step) {
  const ert_unrolled_geometry *g = &s->s;
  const ert_tensor *bias = operand(step, ERT_UNROLLED_BIAS), *residual = operand(step, ERT_UNROLLED_RESIDUAL);
  return (ert_unrolled){
      .offsets = s->offsets,
      .taps = (size_t)g->taps,
      .channel = (int32_t)(ert_unrolled_channel(g, &s->x) * 4),
      .channels = (size_t)g->g.channels,
      .first = true,
      .last = true,
      .together = g->joined && g->pitch > g->g.out[2],
      .bias = bias ? bias->data : NULL,
      .y = step->out[0]->data,
      .y_filter = s->y.channel,
      .residual = residual ? residual->data : NULL,
      .residual_filter = s->residual.channel,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
  };
}

/* What a group of filters has in a tile, but for its values. */
static void describe(const unrolled_state *s, const ert_unrolled_group *group, ert_unrolled *u) {
  u->n_filters = (size_t)group->filters;
  u->tap_batches = group->tap_batches;
  u->batches = s->stream.batches + group->batch;
  u->owners = s->stream.owners + group->value;
  u->n_values = (size_t)group->n_values;
}

/* Bytes of a group's instructions, which may keep inputs for those of others. */
static size_t made_bytes(const unrolled_state *s, const ert_unrolled_group *group, size_t kept) {
  size_t batches = 0;
  for (int64_t tap = 0; tap < s->s.taps; tap++) batches += (size_t)group->tap_batches[tap];
  return s->simd->unrolled_bytes((size_t)s->s.taps, batches, (size_t)group->n_values, kept);
}

/* Groups of a set: those from number `first` on, before `end`, for whose instructions there is room; at least one. */
static size_t set_size(const unrolled_state *s, int64_t tile, int64_t first, int64_t end) {
  const ert_unrolled_geometry *g = &s->s;
  if (g->room == 0) return 1;
  size_t kept = g->kept ? (size_t)ert_min64(g->tile, g->g.channels - tile * g->tile) : 0, bytes = 0, n = 0;
  for (; n < ERT_UNROLLED_SET && first + (int64_t)n < end; n++, kept = 0) {
    const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, tile, first + (int64_t)n);
    bytes += made_bytes(s, &group, kept);
    if (n > 0 && bytes > g->room) break;
  }
  return n;
}

/* Makes the instructions of a set; what each group has but those is in `u`. Returns what is behind them. */
static uint8_t *make_set_once(const unrolled_state *s, ert_unrolled u, int64_t first, size_t n) {
  static float inputs; /* only that they are kept counts here, not where */
  for (size_t i = 0; i < n; i++) {
    const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, 0, first + (int64_t)i);
    describe(s, &group, &u);
    u.kept = s->s.kept && i == 0 ? &inputs : NULL;
    if (s->s.kept && i > 0) u.channel = ERT_UNROLLED_LINE;
    s->bodies[first + (int64_t)i] = (int32_t)(u.body - u.code);
    u.body = s->simd->unrolled_group(&u);
  }
  return u.body;
}

/* Memory for all instructions, if they are to be made once: where strips are short. Of a dozen vectors, making them takes a
 * tenth of the time. */
static size_t made_once_bytes(const unrolled_state *s) {
  enum { MANY = 64 }; /* vectors of a strip, which take so long that nothing is gained */
  const ert_unrolled_geometry *g = &s->s;
  if (!s->simd->unrolled_bytes || g->tiles > 1 || s->vectors > MANY) return 0;
  size_t bytes = ERT_UNROLLED_FRAME; /* at most: as if all groups kept inputs */
  for (int64_t i = 0; i < g->g.groups * s->stream.each && bytes <= ERT_MADE_MOST; i++) {
    const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, 0, i);
    bytes += made_bytes(s, &group, g->kept ? (size_t)g->g.channels : 0);
  }
  return (bytes + 63) / 64 * 64;
}

static void make_once(const unrolled_state *s, const ert_step *step) {
  static const float later = 0; /* an operand that is bound later: only that there is one counts here */
  ert_unrolled u = common(s, step);
  if (operand(step, ERT_UNROLLED_BIAS)) u.bias = &later;
  if (operand(step, ERT_UNROLLED_RESIDUAL)) u.residual = &later;
  u.code = step->made;
  *(volatile uint8_t *)u.code = 0; /* a page that is read before it is written takes two faults */
  u.body = s->simd->unrolled_frame(&u);
  for (int64_t i = 0, first = 0; i < s->s.g.groups * s->runs; i++) {
    const int64_t end = i / s->runs * s->stream.each + s->ends[i];
    for (size_t n; first < end; first += (int64_t)n) {
      n = set_size(s, 0, first, end);
      u.body = make_set_once(s, u, first, n);
    }
  }
}

static edgert_status unrolled_prove(const ert_prepare *p) {
  const unrolled_state *s = p->step->state;
  ERT_TRY(ert_unrolled_stream_prove(p, &s->s, &s->stream));
  if (p->step->made) make_once(s, p->step);
  return EDGERT_OK;
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
  ERT_TRY(ert_unrolled_stream_read(p, &state.s, EDGERT_F32, &state.stream));
  const ert_tensor *bias = operand(p->step, ERT_UNROLLED_BIAS);
  if (bias) ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
  if (bias) ERT_TRY(ert_expect_shape(p, bias, 1, &y->shape[1]));
  const ert_tensor *residual = operand(p->step, ERT_UNROLLED_RESIDUAL);
  if (residual) ERT_TRY(ert_expect_same_type(p, y, residual));
  if (y->elements == 0) return EDGERT_OK;
  const ert_conv_geometry *g = &state.s.g;
  state.vectors = ert_unrolled_vectors(&state.s, state.s.rows);
  state.listed = few_vectors(&state);
  state.far = is_far(&state);
  p->step->code_bytes = code_bytes(&state);
  size_t inputs;
  if (!lay_out(&state, &inputs, &p->step->scratch_bytes))
    return ert_reject(p, "inputs of one strip", "fewer bytes than memory can have", "more");
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)inputs, (double)ert_volume(g->out) * (double)g->filters));
  cut(p, &state);
  ERT_TRY(keep(p, &state));
  p->step->made_bytes = made_once_bytes(p->step->state);
  return EDGERT_OK;
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
      .line = s->s.rowed ? (size_t)s->s.pitch : 0,
      .apart = (size_t)s->s.line,
      .to = to,
  };
  if (!s->s.packed) {
    s->simd->sparse_copy(&copy);
    return;
  }
  const ert_unrolled_pack pack = {
      .of = copy,
      .vectors = (size_t)(s->s.plane / ERT_UNROLLED_LANES),
      .apart = s->s.apart,
      .lines = to + s->s.plane / ERT_UNROLLED_LANES * s->s.apart,
  };
  s->simd->unrolled_pack(&pack);
}

/* A strip, as far as a tile adds to it. */
typedef struct unrolled_part {
  const unrolled_state *s;
  const ert_step *step;
  const unrolled_task *task;
  int64_t tile;
  float *kept, *widened;
  ert_unrolled all; /* what all groups have; y, bias and residual those of the first filter */
} unrolled_part;

/* The values of a group, from number `at` on; widened, as many as there are. */
static const float *values_of(const unrolled_part *p, int64_t at, size_t n, float *widened) {
  const ert_tensor *values = p->step->in[ERT_UNROLLED_VALUES];
  const ert_weights weights = p->s->stream.weights;
  if (weights == ERT_WEIGHTS_F32) return (const float *)values->data + at;
  p->s->simd->sparse_widen(weights, (const uint16_t *)values->data + at, widened, n);
  return widened;
}

/* A set of groups from number `first` on, counted among those of the convolution's group, before `end`; without instructions
 * of one. Returns how many there are. */
static size_t make_set(const unrolled_part *p, int64_t first, int64_t end, ert_unrolled *set) {
  const unrolled_state *s = p->s;
  float *sums = p->all.sums, *widened = p->widened;
  uint8_t *body = p->all.body, *made = p->step->made;
  const int64_t before = p->task->group * s->stream.each;
  const size_t n = body ? set_size(s, p->tile, before + first, before + end) : 1;
  for (size_t i = 0; i < n; i++) {
    const int64_t number = before + first + (int64_t)i, filter = s->filters[number];
    const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, p->tile, number);
    ert_unrolled *u = set + i;
    *u = p->all;
    describe(s, &group, u);
    u->y += filter * s->y.channel;
    if (u->bias) u->bias += filter;
    if (u->residual) u->residual += filter * s->residual.channel;
    u->sums = sums;
    u->body = made ? made + s->bodies[number] : body;
    if (body && s->s.kept && i == 0) u->kept = p->kept;
    if (body && s->s.kept && i > 0) u->x = p->kept, u->channel = ERT_UNROLLED_LINE;
    if (body && !made && s->far) u->share = i, u->shares = n;
    u->values = values_of(p, group.value, u->n_values, widened);
    widened += (u->n_values + ERT_UNROLLED_LANES - 1) / ERT_UNROLLED_LANES * ERT_UNROLLED_LANES;
    sums += u->n_filters * u->n_vectors * ERT_UNROLLED_LANES;
    if (body && !made) body = s->simd->unrolled_group(u);
  }
  return n;
}

/* Groups of filters [first, end). */
static void run_groups(unrolled_part *p, int64_t first, int64_t end) {
  const unrolled_state *s = p->s;
  const size_t rows = (size_t)ert_min64(s->s.rows, s->s.g.out[1] - p->task->row);
  ert_unrolled set[ERT_UNROLLED_SET];
  for (size_t n; first < end; first += (int64_t)n) {
    n = make_set(p, first, end, set);
    s->simd->unrolled(set, n);
    p->all.sums = set[n - 1].sums + set[n - 1].n_filters * p->all.n_vectors * ERT_UNROLLED_LANES;
    for (size_t i = 0; p->all.last && i < n; i++)
      ert_finish_stored(&s->finish, s->simd, set[i].y, set[i].n_filters, s->y.channel, rows, s->y.row,
                        (size_t)s->s.g.out[2]);
  }
}

/* The vectors of a strip, listed in scratch if they have not been. */
static void take_vectors(const unrolled_state *s, const unrolled_task *task, uint8_t *scratch, ert_unrolled *u) {
  const ert_unrolled_geometry *g = &s->s;
  if (s->listed) {
    const size_t at = (size_t)((task->depth * g->strips + task->row / g->rows) * s->vectors);
    u->vectors = s->listing + at;
    u->masks = s->masks + at * (size_t)g->taps;
    u->n_vectors = (size_t)ert_unrolled_vectors(g, ert_min64(g->rows, g->g.out[1] - task->row));
    return;
  }
  ert_unrolled_vector *vectors = (ert_unrolled_vector *)(void *)(scratch + s->vectors_at);
  uint16_t *masks = (uint16_t *)(void *)(scratch + s->masks_at);
  u->n_vectors = list(s, task->depth, task->row, vectors, masks);
  u->vectors = vectors;
  u->masks = masks;
}

/* Groups of filters [first, end) of a strip, counted among those of the convolution's group. */
static void run_strip(const unrolled_state *s, const ert_step *step, const unrolled_task *task, int64_t first,
                      int64_t end, uint8_t *scratch) {
  const ert_unrolled_geometry *g = &s->s;
  ert_sparse_run *runs = (ert_sparse_run *)(void *)(scratch + s->runs_at);
  float *inputs = (float *)(void *)scratch;
  unrolled_part part = {
      .s = s,
      .step = step,
      .task = task,
      .kept = (float *)(void *)(scratch + s->kept_at),
      .widened = (float *)(void *)(scratch + s->widened_at),
      .all = common(s, step),
  };
  ert_unrolled *u = &part.all;
  take_vectors(s, task, scratch, u);
  u->y += ert_position(&s->y, task->image, task->depth, task->row, 0);
  if (u->residual) u->residual += ert_position(&s->residual, task->image, task->depth, task->row, 0);
  u->executable = step->made ? 0 : step->executable;
  u->code = step->made ? step->made : step->executable ? scratch + step->code : NULL;
  u->body = step->made;
  const size_t n_runs = g->in_place ? 0 : ert_unrolled_list_runs(g, &s->x, task->depth, task->row, runs);
  for (part.tile = 0; part.tile < g->tiles; part.tile++) {
    const int64_t channel = part.tile * g->tile;
    u->first = part.tile == 0;
    u->last = part.tile == g->tiles - 1;
    u->channels = (size_t)ert_min64(g->tile, g->g.channels - channel);
    u->sums = (float *)(void *)(scratch + s->sums_at);
    u->x = inputs;
    if (g->in_place)
      u->x = task->x + channel * s->x.channel + task->depth * g->g.stride[0] * s->x.plane + task->row * s->x.row;
    else
      copy_tile(s, task, part.tile, runs, n_runs, inputs);
    if (u->code && !step->made) u->body = s->simd->unrolled_frame(u);
    run_groups(&part, first, end);
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
    run_strip(s, step, &task, run > 0 ? ends[run - 1] : 0, ends[run], scratch);
  }
}

extern const ert_kernel ert_kernel_conv_unrolled;
const ert_kernel ert_kernel_conv_unrolled = {
    .name = "conv_unrolled",
    .prepare = unrolled_prepare,
    .prove = unrolled_prove,
    .run = unrolled_run,
    .views = true,
    .reduced = true,
    .generates = true,
};
