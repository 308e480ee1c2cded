/* conv_depthwise_quantized and conv_depthwise_integer: one filter of bytes a channel, requantised to bytes, or as sums and as
 * floats for levels known only when a step runs; over blocks of 16 channels. */
#include <string.h>

#include "base/checked.h"
#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/partition.h"
#include "kernels/quantized.h"

enum { BAND_BYTES = 24 * 1024 }; /* inputs of a band stay in the first-level cache */

/* A task computes, for one image, block of 16 channels and output depth, a band of rows. Its inputs are copied to scratch,
 * [planes][in_rows][columns][16], padded, each row long enough for whole quads of taps. */
typedef struct depthwise_state {
  ert_conv_geometry g;
  const ert_i8 *loops;
  ert_i8_finish finish;
  ert_strides x, y, residual;
  int64_t size; /* of an output */
  bool integer; /* levels are inputs */
  bool mean;    /* scales are divided by the taps that do not lie in the padding */
  uint8_t pad;  /* else */
  int64_t blocks, bands;
  int64_t columns, in_rows; /* of the largest band in scratch */
  int64_t quads;            /* of taps in a row of the kernel */
  size_t n_lines;
  ptrdiff_t lines[]; /* where the rows of the kernel begin */
} depthwise_state;

/* Quads of neighbouring columns that a row of the kernel spans, those between dilated taps included. */
static int64_t quads_of(const ert_conv_geometry *g) { return g->reach[2] / 4 + 1; }

/* Proves inputs and output but for what follows the weights. */
static edgert_status prove(const ert_prepare *p, ert_conv_geometry *g) {
  const ert_tensor *x = p->step->in[0], *w = p->step->in[1];
  ERT_TRY(ert_quantized_geometry(p, true, INT16_MAX, g));
  if (g->groups != x->shape[1] || g->filters != 1)
    return ert_reject(p, "group", "as many as input and output channels", "%lld", (long long)g->groups);
  const int64_t taps = g->kernel[0] * g->kernel[1], quads = quads_of(g);
  if (quads > ((int64_t)1 << 40) / taps) return ert_reject(p, "taps", "fewer", "more");
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_I32));
  ERT_TRY(ert_expect_layout(p, w, ERT_LAYOUT_DEPTH16));
  ERT_TRY(ert_expect_shape(p, w, 2, (const int64_t[]){x->shape[1], taps * quads}));
  return ert_expect_whole(p, w, 1);
}

/* Input rows that `rows` neighbouring output rows span. */
static int64_t span_of(const ert_conv_geometry *g, int64_t rows) { return (rows - 1) * g->stride[1] + g->reach[1] + 1; }

/* Bytes of `rows` input rows of all depth taps; SIZE_MAX if that is too many. */
static size_t band_bytes(const ert_conv_geometry *g, int64_t columns, int64_t rows) {
  size_t size;
  if (!ert_multiply((size_t)columns, (size_t)rows, &size) || !ert_multiply(size, (size_t)g->kernel[0] * 16, &size) ||
      size > PTRDIFF_MAX)
    return SIZE_MAX;
  return size;
}

static int64_t bands_of(const ert_conv_geometry *g, int64_t tasks, int64_t columns, double products, uint32_t workers) {
  int64_t bands = ert_min64(ert_pieces(tasks, products, workers), g->out[1]);
  while (bands < g->out[1] && band_bytes(g, columns, span_of(g, ert_ceil_divide(g->out[1], bands))) > BAND_BYTES)
    bands = ert_min64(bands * 2, g->out[1]);
  return bands;
}

/* What is computed, cut into tasks. */
static edgert_status cut(ert_prepare *p, const ert_conv_geometry *geometry, const ert_i8_finish *finish, bool integer,
                         bool mean, int64_t pad) {
  const ert_conv_geometry g = *geometry;
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  const int64_t blocks = ert_ceil_divide(g.groups, 16), quads = quads_of(&g), lines = g.kernel[0] * g.kernel[1];
  const int64_t columns = (g.out[2] - 1) * g.stride[2] + quads * 4, tasks = g.batch * blocks * g.out[0];
  const double products = (double)tasks * 16 * (double)(g.out[1] * g.out[2]) * (double)ert_volume(g.kernel);
  const int64_t bands = bands_of(&g, tasks, columns, products, p->workers);
  const int64_t in_rows = span_of(&g, ert_ceil_divide(g.out[1], bands));
  const size_t scratch = band_bytes(&g, columns, in_rows);
  if (scratch == SIZE_MAX) return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)scratch, products / (double)(tasks * bands)));
  depthwise_state *s;
  ERT_TRY(ert_state(p, sizeof *s + (size_t)lines * sizeof *s->lines, (void **)&s));
  s->g = g;
  s->loops = ert_i8_of(p->simd);
  s->finish = *finish;
  ert_strides_of_step(p->step, integer ? p->step->n_in : 4, &s->x, &s->y, &s->residual);
  s->size = (int64_t)ert_dtype_bytes(p->step->out[0]->dtype);
  s->integer = integer, s->mean = mean;
  s->pad = (uint8_t)pad;
  s->blocks = blocks, s->bands = bands, s->columns = columns, s->in_rows = in_rows, s->quads = quads;
  s->n_lines = (size_t)lines;
  for (int64_t i = 0; i < lines; i++)
    s->lines[i] = (i / g.kernel[1] * in_rows + i % g.kernel[1] * g.dilation[1]) * columns * 16;
  p->step->scratch_bytes = (size_t)ert_channels_scratch(integer, 1) + scratch;
  p->step->tasks = tasks * bands;
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ert_conv_geometry g;
  ert_i8_finish finish;
  int64_t pad, mean;
  ERT_TRY(ert_expect_operands(p, 4, 5, 1, 1));
  ERT_TRY(prove(p, &g));
  ERT_TRY(ert_quantized_expect(p, 2, 1, &p->step->out[0]->shape[1], &finish));
  ERT_TRY(ert_int(p, "x_zero", 0, UINT8_MAX, &pad));
  ERT_TRY(ert_int_or(p, "mean", 0, 1, 0, &mean));
  ert_allow_in_place(p, 4);
  return cut(p, &g, &finish, false, mean == 1, pad);
}

static edgert_status prepare_integer(ert_prepare *p) {
  ert_conv_geometry g;
  ert_i8_finish finish;
  ERT_TRY(ert_expect_operands(p, 4, 7, 1, 1));
  ERT_TRY(prove(p, &g));
  ERT_TRY(ert_integer_expect(p, 1, &p->step->out[0]->shape[1], &finish));
  return cut(p, &g, &finish, true, false, 0);
}

/* Copies the inputs of a band to scratch, with the zero point where they lie in the padding. */
static void gather(const depthwise_state *s, const ert_conv_band *t, const uint8_t *x, uint8_t pad, uint8_t *to) {
  const ert_conv_geometry *g = &s->g;
  const int64_t rows = span_of(g, t->rows), left = ert_min64(g->pad[2], s->columns);
  const int64_t inside = ert_clamp64(g->in[2], 0, s->columns - left);
  for (int64_t plane = 0; plane < g->kernel[0]; plane++)
    for (int64_t r = 0; r < rows; r++) {
      uint8_t *line = to + (plane * s->in_rows + r) * s->columns * 16;
      const int64_t d = t->depth * g->stride[0] - g->pad[0] + plane * g->dilation[0];
      const int64_t h = t->row * g->stride[1] - g->pad[1] + r;
      if (d < 0 || d >= g->in[0] || h < 0 || h >= g->in[1]) {
        memset(line, pad, (size_t)s->columns * 16);
        continue;
      }
      memset(line, pad, (size_t)left * 16);
      memcpy(line + left * 16, x + ert_position(&s->x, t->image, d, h, 0), (size_t)inside * 16);
      memset(line + (left + inside) * 16, pad, (size_t)(s->columns - left - inside) * 16);
    }
}

/* Taps of an output's window along dimension d that do not lie in the padding. */
static int64_t taps_inside(const ert_conv_geometry *g, int d, int64_t output) {
  int64_t taps = 0;
  for (int64_t k = 0; k < g->kernel[d]; k++) {
    const int64_t at = output * g->stride[d] - g->pad[d] + k * g->dilation[d];
    taps += at >= 0 && at < g->in[d];
  }
  return taps;
}

/* One task, by runs of columns whose windows have as many taps. */
static void run_means(const depthwise_state *s, const ert_conv_band *t, const ert_i8_depthwise *whole) {
  const ert_conv_geometry *g = &s->g;
  ert_i8_depthwise d = *whole;
  float scale[16];
  d.rows = 1;
  d.scale = scale;
  for (int64_t row = 0; row < t->rows; row++) {
    const int64_t area = taps_inside(g, 0, t->depth) * taps_inside(g, 1, t->row + row);
    for (int64_t column = 0, end; column < g->out[2]; column = end) {
      const int64_t taps = taps_inside(g, 2, column);
      for (end = column + 1; end < g->out[2] && taps_inside(g, 2, end) == taps;) end++;
      for (int i = 0; i < 16; i++) scale[i] = whole->scale[i] / (float)ert_max64(area * taps, 1);
      d.x = whole->x + row * d.x_row + column * d.x_pixel;
      d.y = whole->y + row * d.y_row + column * 16;
      if (whole->residual) d.residual = whole->residual + row * d.residual_row + column * 16;
      d.pixels = (size_t)(end - column);
      s->loops->depthwise(&d);
    }
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const depthwise_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  const ert_tensor *residual = ert_quantized_residual(step, s->integer);
  const uint8_t pad = s->integer ? *(const uint8_t *)step->in[3]->data : s->pad;
  uint8_t *inputs = (uint8_t *)scratch + ert_channels_scratch(s->integer, 1);
  for (int64_t i = begin; i < end; i++) {
    const ert_conv_band t = ert_conv_band_at(&s->g, s->blocks, s->bands, i);
    gather(s, &t, (const uint8_t *)step->in[0]->data + t.block * s->x.channel, pad, inputs);
    const ert_channels channels = ert_channels_at(step, s->integer, t.block, 0, 1, scratch);
    const int64_t at = ert_position(&s->y, t.image, t.depth, t.row, 0) + t.block * s->y.channel;
    const int64_t other = ert_position(&s->residual, t.image, t.depth, t.row, 0) + t.block * s->residual.channel;
    const ert_i8_depthwise d = {
        .x = inputs,
        .x_pixel = g->stride[2] * 16,
        .x_row = g->stride[1] * s->columns * 16,
        .lines = s->lines,
        .n_lines = s->n_lines,
        .quads = (size_t)s->quads,
        .w = (const int32_t *)step->in[1]->data + t.block * (int64_t)s->n_lines * s->quads * 16,
        .bias = channels.bias,
        .scale = channels.scale,
        .offset = channels.offset,
        .y = (uint8_t *)step->out[0]->data + at * s->size,
        .y_row = s->y.row * s->size,
        .residual = residual ? (const uint8_t *)residual->data + other : NULL,
        .residual_row = s->residual.row,
        .rows = (size_t)t.rows,
        .pixels = (size_t)g->out[2],
        .finish = s->finish,
    };
    if (s->mean)
      run_means(s, &t, &d);
    else
      s->loops->depthwise(&d);
  }
}

extern const ert_kernel ert_kernel_conv_depthwise_quantized, ert_kernel_conv_depthwise_integer;
const ert_kernel ert_kernel_conv_depthwise_quantized = {
    .name = "conv_depthwise_quantized", .prepare = prepare, .run = run, .views = true};
const ert_kernel ert_kernel_conv_depthwise_integer = {
    .name = "conv_depthwise_integer", .prepare = prepare_integer, .run = run, .views = true};
