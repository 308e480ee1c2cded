/* linear_quantized and linear_integer: rows of bytes times packed constant weights, requantised to bytes, or as sums and as
 * floats for levels known only when a step runs. */
#include <string.h>

#include "base/checked.h"
#include "kernels/quantized.h"
#include "kernels/tensor.h"

enum { WIDE_ROWS = 8 }; /* from which on widened inputs pay */

/* A task computes all rows by a run of blocks of 16 columns. */
typedef struct linear_quantized_state {
  const ert_i8 *loops;
  ert_i8_finish finish;
  ert_span span;
  int64_t rows, depth, columns;
  int64_t blocks; /* whole ones are stored in place; the last one may be short */
  int64_t pitch;  /* of the copy of the rows in scratch, which end with a whole quad; 0: they are read in place */
  int64_t w_block;
  int64_t size; /* of an output */
  bool integer; /* levels are inputs */
  bool wide;    /* inputs are widened */
} linear_quantized_state;

/* Proves inputs and output but for what follows the weights. */
static edgert_status prove(const ert_prepare *p) {
  const ert_tensor *x = p->step->in[0], *w = p->step->in[1], *y = p->step->out[0];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_U8));
  ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  if (x->rank < 1) return ert_reject(p, "rank of the input", "at least 1", "0");
  const int64_t columns = w->rank == 3 ? w->shape[1] : 0;
  ERT_TRY(ert_quantized_weights(p, 1, columns, x->shape[x->rank - 1] / 4 + (x->shape[x->rank - 1] % 4 != 0)));
  int64_t shape[ERT_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  shape[x->rank - 1] = columns;
  return ert_expect_shape(p, y, x->rank, shape);
}

/* Scratch that the constants of a task take. */
static int64_t constants_bytes(const linear_quantized_state *s) { return ert_channels_scratch(s->integer, s->blocks); }

/* Scratch that the weights of a block take widened. */
static int64_t weights_bytes(const linear_quantized_state *s) {
  return s->wide ? 2 * (int64_t)sizeof(int32_t) * s->w_block : 0;
}

/* What is computed, cut into tasks. */
static edgert_status cut(ert_prepare *p, const ert_i8_finish *finish, bool integer) {
  linear_quantized_state *s;
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  if (y->elements == 0) return EDGERT_OK;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->loops = ert_i8_of(p->simd);
  s->finish = *finish;
  s->depth = x->shape[x->rank - 1];
  s->columns = y->shape[y->rank - 1];
  s->rows = y->elements / s->columns;
  s->blocks = (s->columns + 15) / 16;
  s->w_block = ert_weight_strides_of(p->step->in[1]).block;
  s->span.count = (size_t)((s->depth + 3) / 4 * 4);
  s->wide = s->loops->widen && s->rows >= WIDE_ROWS;
  if (s->wide || s->depth % 4 != 0) s->pitch = (int64_t)s->span.count;
  s->size = (int64_t)ert_dtype_bytes(y->dtype);
  s->integer = integer;
  size_t scratch;
  if (!ert_multiply((size_t)s->rows, (size_t)((s->wide ? 3 : 1) * s->pitch + 16 * s->size), &scratch) ||
      !ert_add(scratch, (size_t)(constants_bytes(s) + weights_bytes(s)), &scratch) || scratch > INT64_MAX)
    return ert_reject(p, "rows", "fewer bytes than memory can have", "more");
  p->step->scratch_bytes = scratch;
  const int64_t cost = ert_clamp64(s->rows, 1, 1 << 14) * ert_clamp64(s->depth, 1, 1 << 20);
  p->step->tasks = ert_cut(s->blocks, cost, p->workers);
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ert_i8_finish finish;
  ERT_TRY(ert_expect_operands(p, 4, 4, 1, 1));
  ERT_TRY(prove(p));
  ERT_TRY(ert_quantized_expect(p, 2, 2, p->step->in[1]->shape, &finish));
  return cut(p, &finish, false);
}

static edgert_status prepare_integer(ert_prepare *p) {
  ert_i8_finish finish;
  ERT_TRY(ert_expect_operands(p, 4, 7, 1, 1));
  ERT_TRY(prove(p));
  ERT_TRY(ert_integer_expect(p, 2, p->step->in[1]->shape, &finish));
  return cut(p, &finish, true);
}

/* Results go to y, rows `pitch` bytes apart. */
static void run_blocks(const ert_step *step, const uint8_t *x, int64_t block, int64_t blocks, uint8_t *y, int64_t pitch,
                       void *scratch) {
  const linear_quantized_state *s = step->state;
  if (blocks == 0) return;
  const ert_channels channels = ert_channels_at(step, s->integer, 0, block, blocks, scratch);
  int32_t *wide = (int32_t *)(void *)((uint8_t *)scratch + constants_bytes(s));
  const ert_i8_dense d = {
      .x = x,
      .wide_x = s->wide ? wide + weights_bytes(s) / 4 : NULL,
      .wide_w = s->wide ? wide : NULL,
      .x_pixel = s->pitch ? s->pitch : s->depth,
      .spans = &s->span,
      .n_spans = s->depth > 0,
      .w = (const int32_t *)step->in[1]->data + block * s->w_block,
      .w_block = s->w_block,
      .bias = channels.bias,
      .scale = channels.scale,
      .offset = channels.offset,
      .y = y,
      .y_pixel = pitch,
      .y_block = 16 * s->size,
      .rows = 1,
      .pixels = (size_t)s->rows,
      .blocks = (size_t)blocks,
      .finish = s->finish,
  };
  s->loops->dense(&d);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const linear_quantized_state *s = step->state;
  const uint8_t *x = step->in[0]->data;
  uint8_t *y = step->out[0]->data, *wide = (uint8_t *)scratch + constants_bytes(s) + weights_bytes(s);
  uint8_t *tile = wide + (s->wide ? 2 * s->rows * s->pitch : 0), *copy = tile + s->rows * 16 * s->size;
  for (int64_t r = 0; r < s->rows && s->pitch; r++) {
    memcpy(copy + r * s->pitch, x + r * s->depth, (size_t)s->depth);
    memset(copy + r * s->pitch + s->depth, 0, (size_t)(s->pitch - s->depth));
  }
  if (s->pitch) x = copy;
  if (s->wide) s->loops->widen(copy, (size_t)(s->rows * s->pitch), (int32_t *)(void *)wide);
  const int64_t first = ert_cut_at(s->blocks, step->tasks, begin), last = ert_cut_at(s->blocks, step->tasks, end);
  const int64_t whole = ert_min64(last, s->columns / 16), block = 16 * s->size, pitch = s->columns * s->size;
  run_blocks(step, x, first, whole - first, y + first * block, pitch, scratch);
  if (whole == last) return;
  run_blocks(step, x, whole, 1, tile, block, scratch);
  for (int64_t r = 0; r < s->rows; r++)
    memcpy(y + r * pitch + whole * block, tile + r * block, (size_t)(pitch - whole * block));
}

extern const ert_kernel ert_kernel_linear_quantized, ert_kernel_linear_integer;
const ert_kernel ert_kernel_linear_quantized = {.name = "linear_quantized", .prepare = prepare, .run = run};
const ert_kernel ert_kernel_linear_integer = {.name = "linear_integer", .prepare = prepare_integer, .run = run};
