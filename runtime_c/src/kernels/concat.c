/* concat: inputs joined along one axis; planar tensors of any type, and float32 blocks of 16 channels. */
#include "kernels/rows.h"
#include "kernels/tensor.h"

/* `outer` rows of the output, each one run of every input in turn. */
typedef struct runs_state {
  int64_t outer;
  size_t row_bytes; /* of the output */
  size_t chunk;     /* bytes of the output in a unit */
  int64_t units;
} runs_state;

/* Blocks of channels: `batch` times the output's channel blocks, `pixels` positions each. */
typedef struct blocks_state {
  int64_t batch, pixels, out_blocks, units;
} blocks_state;

typedef struct concat_state {
  bool by_blocks;
  union {
    runs_state runs;
    blocks_state blocks;
  };
} concat_state;

enum { LANES = 16, CHUNK = 65536 };

static int64_t blocks_of(int64_t channels) { return channels / LANES + (channels % LANES != 0); }

/* Bytes of one row of `t` when cut before `axis`; `channel_axis` is counted in whole blocks, -1: none. */
static size_t row_bytes(const ert_tensor *t, int axis, int channel_axis) {
  uint64_t bytes = ert_dtype_bytes(t->dtype);
  for (int i = axis; i < t->rank; ++i)
    bytes *= (uint64_t)(i == channel_axis ? blocks_of(t->shape[i]) * LANES : t->shape[i]);
  return bytes;
}

static edgert_status check_inputs(ert_prepare *p, int axis) {
  const ert_tensor *y = p->step->out[0];
  int64_t total = 0;
  for (uint32_t i = 0; i < p->step->n_in; ++i) {
    const ert_tensor *x = p->step->in[i];
    int64_t shape[ERT_MAX_RANK];
    for (int d = 0; d < y->rank; ++d) shape[d] = y->shape[d];
    if (x->rank != y->rank) return ert_reject(p, "rank of an input", "that of the output", "%d", x->rank);
    shape[axis] = x->shape[axis];
    ERT_TRY(ert_expect_dtype(p, x, (edgert_dtype)y->dtype));
    ERT_TRY(ert_expect_layout(p, x, (ert_layout)y->layout));
    ERT_TRY(ert_expect_shape(p, x, y->rank, shape));
    if (__builtin_add_overflow(total, x->shape[axis], &total)) total = -1;
    if (total < 0) break;
  }
  if (total != y->shape[axis])
    return ert_reject(p, "size along the axis", "the sum of the inputs' sizes", "%lld", (long long)y->shape[axis]);
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, UINT32_MAX, 1, 1));
  ert_step *step = p->step;
  const ert_tensor *y = step->out[0];
  for (uint32_t i = 0; i < step->n_in; ++i) {
    if (!step->in[i]) return ert_reject(p, "input", "a tensor", "none as input %u", i);
  }
  bool block16 = y->layout == ERT_LAYOUT_BLOCK16;
  if (block16) {
    ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  } else {
    ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  }
  if (y->rank == 0) return ert_reject(p, "rank", "at least 1", "0");
  int64_t found;
  ERT_TRY(ert_int(p, "axis", 0, y->rank - 1, &found));
  int axis = (int)found, channel_axis = !block16 ? -1 : y->rank == 1 ? 0 : 1;
  ERT_TRY(check_inputs(p, axis));

  void *memory;
  ERT_TRY(ert_state(p, sizeof(concat_state), &memory));
  concat_state *state = memory;
  if (y->elements == 0) return EDGERT_OK;
  int64_t outer = ert_extent(y, 0, axis);
  if (axis == channel_axis) {
    state->by_blocks = true;
    blocks_state *b = &state->blocks;
    *b = (blocks_state){
        .batch = outer, .pixels = ert_extent(y, axis + 1, y->rank), .out_blocks = blocks_of(y->shape[axis])};
    b->units = b->batch * b->out_blocks;
    step->tasks = ert_cut(b->units, b->pixels * LANES, p->workers);
    return EDGERT_OK;
  }
  if (axis > channel_axis && channel_axis >= 0) outer = y->shape[0] * blocks_of(y->shape[1]) * ert_extent(y, 2, axis);
  runs_state *r = &state->runs;
  r->outer = outer;
  r->row_bytes = row_bytes(y, axis, channel_axis) * (axis > channel_axis && channel_axis >= 0 ? LANES : 1);
  r->chunk = r->row_bytes < CHUNK ? CHUNK / r->row_bytes * r->row_bytes : CHUNK;
  size_t bytes = r->row_bytes * (size_t)outer;
  r->units = (int64_t)(bytes / r->chunk + (bytes % r->chunk != 0));
  step->tasks = ert_cut(r->units, CHUNK / 4, p->workers);
  return EDGERT_OK;
}

/* ---- runs ---- */

static size_t input_row_bytes(const runs_state *r, const ert_tensor *x) { return x->bytes / (size_t)r->outer; }

/* Bytes [from, to) of the output's row `row`. */
static void copy_part(const ert_step *step, const runs_state *r, int64_t row, size_t from, size_t to) {
  char *y = (char *)step->out[0]->data + (size_t)row * r->row_bytes;
  size_t start = 0;
  for (uint32_t i = 0; i < step->n_in && start < to; ++i) {
    size_t bytes = input_row_bytes(r, step->in[i]);
    const char *x = (const char *)step->in[i]->data + (size_t)row * bytes;
    size_t a = from > start ? from - start : 0, b = to - start < bytes ? to - start : bytes;
    if (a < b) memcpy(y + start + a, x + a, b - a);
    start += bytes;
  }
}

static void copy_whole_rows(const ert_step *step, const runs_state *r, int64_t begin, int64_t end) {
  char *y = (char *)step->out[0]->data + (size_t)begin * r->row_bytes;
  for (uint32_t i = 0; i < step->n_in; ++i) {
    size_t bytes = input_row_bytes(r, step->in[i]);
    if (!bytes) continue;
    ert_copy_rows(y, (ptrdiff_t)r->row_bytes, (const char *)step->in[i]->data + (size_t)begin * bytes, (ptrdiff_t)bytes,
                  end - begin, bytes);
    y += bytes;
  }
}

static void run_runs(const ert_step *step, const runs_state *r, int64_t begin, int64_t end) {
  size_t at = (size_t)begin * r->chunk, stop = (size_t)end * r->chunk, all = r->row_bytes * (size_t)r->outer;
  if (stop > all) stop = all;
  if (at >= stop) return;         /* rows may be empty */
  if (r->row_bytes <= r->chunk) { /* chunks are whole rows */
    copy_whole_rows(step, r, (int64_t)(at / r->row_bytes), (int64_t)(stop / r->row_bytes));
    return;
  }
  while (at < stop) {
    size_t row = at / r->row_bytes, from = at % r->row_bytes;
    size_t to = stop - row * r->row_bytes < r->row_bytes ? stop - row * r->row_bytes : r->row_bytes;
    copy_part(step, r, (int64_t)row, from, to);
    at += to - from;
  }
}

/* ---- blocks of channels ---- */

/* Lanes [lane, lane + n) of each of `pixels` blocks at y take lanes [from, from + n) of the blocks at x. */
static void merge_lanes(ert_bits32 *restrict y, const ert_bits32 *restrict x, int64_t pixels, int64_t lane,
                        int64_t from, int64_t n) {
  uint32_t mask[LANES];
  for (int64_t i = 0; i < LANES; ++i) mask[i] = i >= lane && i < lane + n ? UINT32_MAX : 0;
  int64_t shift = from - lane; /* the window x + shift must not leave the first and the last block */
  int64_t first = shift < 0 ? 1 : 0, last = shift > 0 ? pixels - 1 : pixels;
  if (first) memcpy(y + lane, x + from, (size_t)n * sizeof *y);
  for (int64_t i = first; i < last; ++i) {
    ert_bits32 *d = y + i * LANES;
    const ert_bits32 *s = x + i * LANES + shift;
    for (int k = 0; k < LANES; ++k) d[k] = (s[k] & mask[k]) | (d[k] & ~mask[k]);
  }
  if (last < pixels) memcpy(y + last * LANES + lane, x + last * LANES + from, (size_t)n * sizeof *y);
}

/* One block of output channels, from as many inputs as reach into it. */
static void make_block(const ert_step *step, const blocks_state *b, int64_t image, int64_t block) {
  const ert_tensor *out = step->out[0];
  int axis = out->rank == 1 ? 0 : 1;
  int64_t block_floats = b->pixels * LANES;
  ert_bits32 *y = (ert_bits32 *)out->data + (image * b->out_blocks + block) * block_floats;
  int64_t channel = block * LANES, end = ert_min64(channel + LANES, out->shape[axis]), start = 0;
  for (uint32_t i = 0; i < step->n_in && start < end; ++i) {
    int64_t channels = step->in[i]->shape[axis], stop = start + channels;
    const ert_bits32 *x = (const ert_bits32 *)step->in[i]->data + image * blocks_of(channels) * block_floats;
    while (channel < ert_min64(stop, end)) {
      int64_t from = channel - start, lane = channel % LANES;
      int64_t n = ert_min64(ert_min64(LANES - lane, LANES - from % LANES), ert_min64(stop, end) - channel);
      const ert_bits32 *source = x + from / LANES * block_floats;
      if (lane == 0 && from % LANES == 0 && channel + n == end)
        memcpy(y, source, (size_t)block_floats * sizeof *y); /* what lies past the last channel does not matter */
      else
        merge_lanes(y, source, b->pixels, lane, from % LANES, n);
      channel += n;
    }
    start = stop;
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const concat_state *state = step->state;
  int64_t units = state->by_blocks ? state->blocks.units : state->runs.units;
  int64_t from = ert_cut_at(units, step->tasks, begin), to = ert_cut_at(units, step->tasks, end);
  if (!state->by_blocks) {
    run_runs(step, &state->runs, from, to);
    return;
  }
  for (int64_t unit = from; unit < to; ++unit)
    make_block(step, &state->blocks, unit / state->blocks.out_blocks, unit % state->blocks.out_blocks);
}

const ert_kernel ert_kernel_concat = {.name = "concat", .prepare = prepare, .run = run};
