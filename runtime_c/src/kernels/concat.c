/* concat: inputs, some of them maybe absent, joined along one axis; planar tensors, and blocks of 16 channels of float32 or bytes. */
#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

/* An input: its walk has y, from the input's place in it, as operand 0 and the input as operand 1. */
typedef struct concat_part {
  ert_walk walk;        /* of elements; if blocks are cut within, of the pixels of one block */
  int64_t place;        /* where the input begins in y */
  int64_t elements;     /* of the input in one row of y */
  int64_t image, block; /* if blocks are cut within: strides of the input */
} concat_part;

/* The output as `outer` rows, in each of which all inputs lie one after the other. A band of rows is made at a time, so
 * that it stays in the cache until all inputs are in it. */
typedef struct concat_state {
  size_t size; /* of an element */
  int64_t outer, row, band, units;
  int64_t blocks;       /* of an image, if some input begins within a block of channels; else 0 */
  int64_t image, block; /* then: strides of y */
  concat_part parts[];
} concat_state;

enum { LANES = 16, UNIT = 1024 /* elements of a unit of work */, BAND = 65536 /* bytes, if rows are shorter */ };

static edgert_status check_inputs(ert_prepare *p, int axis) {
  const ert_tensor *y = p->step->out[0];
  int64_t total = 0;
  for (uint32_t i = 0; i < p->step->n_in; ++i) {
    const ert_tensor *x = p->step->in[i];
    int64_t shape[ERT_MAX_RANK];
    if (!x) continue;
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

/* Of an input along the axis; 0 if it is absent. */
static int64_t extent(const ert_step *step, uint32_t input, int axis) {
  return step->in[input] ? step->in[input]->shape[axis] : 0;
}

/* Whether an input begins within a block of channels. */
static bool cuts_blocks(const ert_step *step, int axis) {
  int64_t start = 0;
  bool cuts = false;
  for (uint32_t i = 0; i < step->n_in; ++i) {
    cuts |= extent(step, i, axis) > 0 && start % LANES != 0;
    start += extent(step, i, axis);
  }
  return cuts;
}

static void plan_rows(ert_prepare *p, int axis, concat_state *s) {
  const ert_step *step = p->step;
  const ert_stored y = ert_stored_of(step->out[0]);
  int64_t start = 0;
  s->outer = 1;
  for (int d = 0; d < axis; ++d) s->outer *= y.shape[d];
  for (uint32_t i = 0; i < step->n_in; ++i) {
    if (!step->in[i]) continue;
    const ert_stored x = ert_stored_of(step->in[i]);
    concat_part *part = &s->parts[i];
    *part = (concat_part){.walk = {.operands = 2}, .place = start * y.stride[axis], .elements = 1};
    for (int d = 0; d < x.rank; ++d) {
      ert_walk_push(&part->walk, x.shape[d], (const int64_t[]){y.stride[d], x.stride[d]});
      if (d >= axis) part->elements *= x.shape[d];
    }
    ert_walk_merge(&part->walk, 2);
    start += x.shape[axis];
    s->row += part->elements;
  }
  s->size = ert_dtype_bytes(step->out[0]->dtype);
  s->band = ert_clamp64(BAND / (s->row * (int64_t)s->size), 1, s->outer);
  s->units = (s->outer * s->row + UNIT - 1) / UNIT;
  p->step->tasks = ert_cut(s->units, UNIT, p->workers);
}

static void plan_blocks(ert_prepare *p, int axis, concat_state *s) {
  const ert_step *step = p->step;
  const ert_stored y = ert_stored_of(step->out[0]);
  const int64_t images = axis == 0 ? 1 : y.shape[0];
  for (uint32_t i = 0; i < step->n_in; ++i) {
    if (!step->in[i]) continue;
    const ert_stored x = ert_stored_of(step->in[i]);
    concat_part *part = &s->parts[i];
    *part = (concat_part){.walk = {.operands = 2}, .image = x.stride[0], .block = x.stride[axis]};
    for (int d = axis + 1; d < x.rank - 1; ++d)
      ert_walk_push(&part->walk, x.shape[d], (const int64_t[]){y.stride[d] / LANES, x.stride[d] / LANES});
    ert_walk_merge(&part->walk, 2);
  }
  s->size = ert_dtype_bytes(step->out[0]->dtype);
  s->blocks = y.shape[axis];
  s->image = y.stride[0];
  s->block = y.stride[axis];
  s->units = images * s->blocks;
  p->step->tasks = ert_cut(s->units, ert_extent(step->out[0], axis + 1, step->out[0]->rank) * LANES, p->workers);
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 0, UINT32_MAX, 1, 1));
  const ert_step *step = p->step;
  const ert_tensor *y = step->out[0];
  const bool block16 = y->layout == ERT_LAYOUT_BLOCK16;
  if (block16) {
    if (y->dtype != EDGERT_U8) ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  } else {
    ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  }
  if (y->rank == 0) return ert_reject(p, "rank", "at least 1", "0");
  int64_t found;
  ERT_TRY(ert_int(p, "axis", 0, y->rank - 1, &found));
  const int axis = (int)found;
  ERT_TRY(check_inputs(p, axis));

  void *memory;
  ERT_TRY(ert_state(p, sizeof(concat_state) + step->n_in * sizeof(concat_part), &memory));
  if (y->elements == 0) return EDGERT_OK;
  if (block16 && axis == (y->rank == 1 ? 0 : 1) && cuts_blocks(step, axis))
    plan_blocks(p, axis, memory);
  else
    plan_rows(p, axis, memory);
  return EDGERT_OK;
}

/* ---- rows ---- */

/* Elements [from, to) of `rows` rows, the first of which is `first`, in the order in which bands are made: all that
 * these rows have of one input, then of the next. */
static void copy_band(const ert_step *step, const concat_state *s, int64_t first, int64_t rows, int64_t from,
                      int64_t to) {
  for (uint32_t i = 0; i < step->n_in && to > 0; ++i) {
    const concat_part *part = &s->parts[i];
    const int64_t before = first * part->elements, n = rows * part->elements;
    if (from < n)
      ert_walk_copy(&part->walk, s->size, (char *)step->out[0]->data + (size_t)part->place * s->size, step->in[i]->data,
                    before + from, before + ert_min64(to, n));
    from = ert_max64(from - n, 0);
    to -= n;
  }
}

static void copy_rows(const ert_step *step, const concat_state *s, int64_t begin, int64_t end) {
  int64_t at = begin * UNIT;
  const int64_t stop = ert_min64(end * UNIT, s->outer * s->row);
  while (at < stop) {
    const int64_t first = at / s->row / s->band * s->band, start = first * s->row;
    const int64_t rows = ert_min64(s->band, s->outer - first), until = ert_min64(stop - start, rows * s->row);
    copy_band(step, s, first, rows, at - start, until);
    at = start + until;
  }
}

/* ---- blocks of channels ---- */

/* Lanes [lane, lane + n) of each of `pixels` blocks at y take lanes [from, from + n) of the blocks at x. */
#define MERGE(name, T)                                                                                        \
  static void merge_##name(T *restrict y, const T *restrict x, int64_t pixels, int64_t lane, int64_t from,    \
                           int64_t n) {                                                                       \
    T mask[LANES];                                                                                            \
    for (int64_t i = 0; i < LANES; ++i) mask[i] = i >= lane && i < lane + n ? (T) - 1 : 0;                    \
    const int64_t shift = from - lane; /* the window x + shift must not leave the first and the last block */ \
    const int64_t first = shift < 0 ? 1 : 0, last = shift > 0 ? pixels - 1 : pixels;                          \
    if (first) memcpy(y + lane, x + from, (size_t)n * sizeof *y);                                             \
    for (int64_t i = first; i < last; ++i) {                                                                  \
      T *d = y + i * LANES;                                                                                   \
      const T *s = x + i * LANES + shift;                                                                     \
      for (int k = 0; k < LANES; ++k) d[k] = (T)((s[k] & mask[k]) | (d[k] & (T)~mask[k]));                    \
    }                                                                                                         \
    if (last < pixels) memcpy(y + last * LANES + lane, x + last * LANES + from, (size_t)n * sizeof *y);       \
  }
MERGE(words, ert_bits32)
MERGE(bytes, uint8_t)

/* The same of every pixel of a block of elements of `size` bytes, all of which is copied if n is LANES. */
static void copy_lanes(const ert_walk *w, size_t size, char *y, const char *x, int64_t lane, int64_t from, int64_t n) {
  if (n == LANES) {
    ert_walk_copy(w, LANES * size, y, x, 0, w->elements);
    return;
  }
  ert_cursor c;
  ert_walk_start(w, &c);
  for (int64_t left = w->elements, pixels; left > 0; left -= pixels, ert_walk_advance(w, &c, pixels)) {
    char *to = y + (size_t)(c.offset[0] * LANES) * size;
    const char *of = x + (size_t)(c.offset[1] * LANES) * size;
    pixels = ert_walk_left(w, &c);
    if (size == sizeof(ert_bits32))
      merge_words((ert_bits32 *)(void *)to, (const ert_bits32 *)(const void *)of, pixels, lane, from, n);
    else
      merge_bytes((uint8_t *)to, (const uint8_t *)of, pixels, lane, from, n);
  }
}

/* One block of output channels, from as many inputs as reach into it. */
static void make_block(const ert_step *step, const concat_state *s, int64_t image, int64_t block) {
  const ert_tensor *out = step->out[0];
  int axis = out->rank == 1 ? 0 : 1;
  char *y = (char *)out->data + (size_t)(image * s->image + block * s->block) * s->size;
  int64_t channel = block * LANES, end = ert_min64(channel + LANES, out->shape[axis]), start = 0;
  for (uint32_t i = 0; i < step->n_in && start < end; ++i) {
    const concat_part *part = &s->parts[i];
    int64_t stop = start + extent(step, i, axis);
    if (stop == start) continue;
    while (channel < ert_min64(stop, end)) {
      int64_t from = channel - start, lane = channel % LANES;
      int64_t n = ert_min64(ert_min64(LANES - lane, LANES - from % LANES), ert_min64(stop, end) - channel);
      bool all =
          lane == 0 && from % LANES == 0 && channel + n == end; /* what lies past the last channel does not matter */
      const int64_t at = image * part->image + from / LANES * part->block;
      const char *x = (const char *)step->in[i]->data + (size_t)at * s->size;
      copy_lanes(&part->walk, s->size, y, x, lane, from % LANES, all ? LANES : n);
      channel += n;
    }
    start = stop;
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const concat_state *s = step->state;
  int64_t from = ert_cut_at(s->units, step->tasks, begin), to = ert_cut_at(s->units, step->tasks, end);
  if (!s->blocks) {
    copy_rows(step, s, from, to);
    return;
  }
  for (int64_t unit = from; unit < to; ++unit) make_block(step, s, unit / s->blocks, unit % s->blocks);
}

const ert_kernel ert_kernel_concat = {.name = "concat", .prepare = prepare, .run = run, .views = true};
