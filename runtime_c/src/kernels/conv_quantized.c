/* conv_quantized and conv_integer: convolution of bytes with packed weights, requantised to bytes, or as sums and as floats for
 * levels known only when a step runs; blocks of 16 output channels. */
#include <math.h>
#include <string.h>

#include "kernels/conv_plan.h"
#include "kernels/quantized.h"
#include "kernels/simd/i8.h"
#include "kernels/tensor.h"
#include "kernels/transpose.h"

typedef struct conv_quantized_state {
  ert_conv_plan plan; /* over input channels rounded up to quads */
  const ert_i8 *loops;
  ert_i8_finish finish;
  ert_strides x, y, residual;
  ert_weight_strides w;
  int64_t channels;     /* that a group has */
  int64_t size;         /* of an output */
  bool integer;         /* levels are inputs */
  bool wide;            /* inputs are widened */
  uint8_t pad;          /* if levels are none */
  ert_i8_range *ranges; /* of the blocks of a group; NULL: all weights count */
  size_t n_spans;
  ert_span spans[];
} conv_quantized_state;

/* Proves inputs and output but for what follows the weights, and reads the geometry with input channels rounded up to quads.
 * The kernel's extents are an attribute, as weights lie in one row of quads. */
static edgert_status prove(const ert_prepare *p, ert_conv_geometry *g) {
  ERT_TRY(ert_quantized_geometry(p, false, INT16_MAX, g));
  if (g->groups > 1 && (g->channels % 16 != 0 || g->filters % 16 != 0))
    return ert_reject(p, "channels of a group", "multiples of 16", "%lld and %lld", (long long)g->channels,
                      (long long)g->filters);
  g->channels = (g->channels + 3) / 4 * 4;
  const int64_t most = (int64_t)1 << 40, taps = ert_volume(g->kernel);
  if (g->channels > most / taps) return ert_reject(p, "input channels and taps", "fewer", "more");
  return ert_quantized_weights(p, g->groups, g->filters, g->channels / 4 * taps);
}

/* Scratch: the constants of a task, the band, and the band and the weights of a block widened. */
static int64_t constants_bytes(const conv_quantized_state *s) {
  return ert_channels_scratch(s->integer, s->plan.blocks);
}

static int64_t band_bytes(const conv_quantized_state *s) { return (s->plan.band_size + 63) / 64 * 64; }

static int64_t wide_bytes(const conv_quantized_state *s) {
  return s->wide ? 2 * band_bytes(s) + 2 * (int64_t)sizeof(int32_t) * s->w.block : 0;
}

/* What the blocks of a group have weights for that is several groups together, `filters` and `channels` each. */
static void find_ranges(const conv_quantized_state *s, int64_t filters, int64_t channels) {
  const int64_t step = 16 * ert_volume(s->plan.g.kernel); /* inputs of a block of channels */
  ert_i8_range at = {0};
  int64_t ended = 0; /* inputs before at.end */
  for (int64_t b = 0; b < s->plan.blocks; b++) {
    const int64_t last = ert_min64(b * 16 + 15, s->plan.g.filters - 1);
    const int64_t from = b * 16 / filters * channels / 16 * step,
                  to = ((last / filters + 1) * channels + 15) / 16 * step;
    while (at.begin < from) at.begin += (ptrdiff_t)s->spans[at.first++].count;
    while (at.end < s->n_spans && ended < to) ended += (int64_t)s->spans[at.end++].count;
    s->ranges[b] = at;
  }
}

/* What is computed, cut into tasks. */
static edgert_status cut(ert_prepare *p, const ert_conv_geometry *geometry, const ert_i8_finish *finish, bool integer,
                         int64_t pad) {
  const ert_conv_geometry g = *geometry;
  const ert_tensor *in = p->step->in[0], *out = p->step->out[0];
  if (out->elements == 0) return EDGERT_OK;
  ert_strides x, y, residual;
  ert_strides_of_step(p->step, integer ? p->step->n_in : 4, &x, &y, &residual);
  ert_conv_plan plan;
  conv_quantized_state *s;
  int64_t together;
  ERT_TRY(ert_int_or(p, "together", 1, ert_max64(ert_min64(g.filters, in->shape[1] / g.groups), 1), 1, &together));
  if (g.filters % together != 0 || in->shape[1] / g.groups % together != 0)
    return ert_reject(p, "attribute 'together'", "a divisor of each group's channels", "%lld", (long long)together);
  const bool joined =
      ert_positions_joined(&x, g.in) && ert_positions_joined(&y, g.out) && ert_positions_joined(&residual, g.out);
  const ert_i8 *loops = ert_i8_of(p->simd);
  const ert_conv_inputs inputs = loops->widen ? ERT_CONV_COPIED : ERT_CONV_IN_PLACE;
  if (!ert_conv_plan_make(&g, &x, joined, p->workers, inputs, &plan))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  const double positions = (double)plan.rows * (double)plan.columns;
  ERT_TRY(ert_conv_expect_worth(p, plan.band_size, positions * (double)g.filters * (double)plan.weights));
  const ert_conv_part all[3] = {ert_conv_whole(&plan.g, 0), ert_conv_whole(&plan.g, 1), ert_conv_whole(&plan.g, 2)};
  const ert_conv_part *const taps[3] = {&all[0], &all[1], &all[2]};
  const size_t n_spans = ert_conv_plan_spans(&plan, taps, 0, INT64_MAX, NULL);
  const size_t n_ranges = together > 1 ? (size_t)plan.blocks : 0, spans_bytes = n_spans * sizeof *s->spans;
  ERT_TRY(ert_state(p, sizeof *s + spans_bytes + n_ranges * sizeof *s->ranges, (void **)&s));
  s->plan = plan;
  s->loops = loops;
  s->wide = loops->widen && plan.gather;
  s->finish = *finish;
  s->x = x, s->y = y, s->residual = residual;
  s->w = ert_weight_strides_of(p->step->in[1]);
  s->channels = in->shape[1] / g.groups;
  s->size = (int64_t)ert_dtype_bytes(out->dtype);
  s->integer = integer;
  s->pad = (uint8_t)pad;
  s->n_spans = n_spans;
  ert_conv_plan_spans(&s->plan, taps, 0, INT64_MAX, s->spans);
  if (n_ranges > 0) {
    s->ranges = (ert_i8_range *)(void *)(s->spans + n_spans);
    find_ranges(s, g.filters / together, s->channels / together);
  }
  p->step->scratch_bytes = (size_t)(constants_bytes(s) + band_bytes(s) + wide_bytes(s)) + 64;
  p->step->tasks = g.batch * g.groups * plan.g.out[0] * plan.row_bands * plan.column_bands * plan.runs;
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ert_conv_geometry g;
  ert_i8_finish finish;
  int64_t pad, mean;
  ERT_TRY(ert_expect_operands(p, 4, 5, 1, 1));
  ERT_TRY(prove(p, &g));
  ERT_TRY(ert_quantized_expect(p, 2, 2, (const int64_t[]){g.groups, g.filters}, &finish));
  ERT_TRY(ert_int(p, "x_zero", 0, UINT8_MAX, &pad));
  ERT_TRY(ert_int_or(p, "mean", 0, 0, 0, &mean)); /* of depthwise ones only */
  ert_allow_in_place(p, 4);
  return cut(p, &g, &finish, false, pad);
}

static edgert_status prepare_integer(ert_prepare *p) {
  ert_conv_geometry g;
  ert_i8_finish finish;
  ERT_TRY(ert_expect_operands(p, 4, 7, 1, 1));
  ERT_TRY(prove(p, &g));
  ERT_TRY(ert_integer_expect(p, 2, (const int64_t[]){g.groups, g.filters}, &finish));
  return cut(p, &g, &finish, true, 0);
}

/* `columns` neighbouring inputs of planar channels, side by side; what is left of the last quad has weights of zero. */
static void interleave(const conv_quantized_state *s, const uint8_t *x, uint8_t *line, int64_t columns) {
  const ert_conv_plan *plan = &s->plan;
  if (plan->lanes == 4) {
    const uint8_t *rows[4];
    for (int64_t c = 0; c < 4; c++) rows[c] = x + ert_min64(c, s->channels - 1) * s->x.channel;
    ert_join_bytes(line, rows, columns);
    return;
  }
  for (int64_t c = 0; c < s->channels; c++) {
    const uint8_t *from = x + c * s->x.channel;
    uint8_t *to = line + c / plan->lanes * plan->block + c % plan->lanes;
    for (int64_t i = 0; i < columns; i++) to[i * plan->lanes] = from[i];
  }
}

/* Copies the inputs that a band of outputs needs to scratch, with the zero point where they lie in the padding. */
static void gather_band(const conv_quantized_state *s, const ert_conv_task *t, const uint8_t *x, uint8_t pad,
                        uint8_t *band) {
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  const int64_t lanes = plan->lanes, in_columns = (t->columns - 1) * g->stride[2] + g->reach[2] + 1;
  const int64_t in_rows = (t->rows - 1) * g->stride[1] + g->reach[1] + 1;
  const int64_t column = t->column * g->stride[2] - g->pad[2];
  const int64_t left = ert_clamp64(-column, 0, in_columns), right = ert_clamp64(g->in[2] - column, left, in_columns);
  x += t->group * s->channels * (plan->blocked ? s->x.channel / 16 : s->x.channel);
  for (int64_t plane = 0; plane < g->kernel[0]; plane++)
    for (int64_t r = 0; r < in_rows; r++) {
      uint8_t *line = band + plane * plan->plane + r * plan->row;
      const int64_t d = t->depth * g->stride[0] - g->pad[0] + plane * g->dilation[0];
      const int64_t h = t->row * g->stride[1] - g->pad[1] + r;
      const bool inside = d >= 0 && d < g->in[0] && h >= 0 && h < g->in[1];
      const int64_t from = inside ? left : in_columns, to = inside ? right : in_columns;
      const uint8_t *first = from < to ? x + ert_position(&s->x, t->image, d, h, column + from) : NULL;
      for (int64_t b = 0; b < plan->channel_blocks; b++) {
        uint8_t *block = line + b * plan->block;
        if (!plan->blocked || from > 0) memset(block, pad, (size_t)(from * lanes));
        if (plan->blocked && first)
          memcpy(block + from * lanes, first + b * s->x.channel, (size_t)((to - from) * lanes));
        memset(block + to * lanes, pad, (size_t)((in_columns - to) * lanes));
      }
      if (first && !plan->blocked) interleave(s, first, line + from * lanes, to - from);
    }
}

static void run_task(const ert_step *step, const ert_conv_task *t, const uint8_t *x, void *scratch) {
  const conv_quantized_state *s = step->state;
  const ert_conv_plan *plan = &s->plan;
  const ert_tensor *residual = ert_quantized_residual(step, s->integer);
  const ert_channels channels = ert_channels_at(step, s->integer, t->group, t->block, t->blocks, scratch);
  const int64_t block = t->group * plan->blocks + t->block;
  uint8_t *y = step->out[0]->data;
  y += (ert_position(&s->y, t->image, t->depth, t->row, t->column) + block * s->y.channel) * s->size;
  const uint8_t *added = residual ? residual->data : NULL;
  if (added) added += ert_position(&s->residual, t->image, t->depth, t->row, t->column) + block * s->residual.channel;
  int32_t *wide = (int32_t *)(void *)((uint8_t *)scratch + constants_bytes(s) + band_bytes(s));
  const ert_i8_dense d = {
      .x = x,
      .wide_x = s->wide ? wide : NULL,
      .wide_w = s->wide ? wide + band_bytes(s) / 2 : NULL,
      .x_pixel = plan->x_pixel,
      .x_row = plan->x_row,
      .spans = s->spans,
      .n_spans = s->n_spans,
      .ranges = s->ranges ? s->ranges + t->block : NULL,
      .w = (const int32_t *)step->in[1]->data + t->group * s->w.group + t->block * s->w.block,
      .w_block = s->w.block,
      .bias = channels.bias,
      .scale = channels.scale,
      .offset = channels.offset,
      .y = y,
      .y_pixel = 16 * s->size,
      .y_row = s->y.row * s->size,
      .y_block = s->y.channel * s->size,
      .residual = added,
      .residual_row = s->residual.row,
      .residual_block = s->residual.channel,
      .rows = (size_t)t->rows,
      .pixels = (size_t)t->columns,
      .blocks = (size_t)t->blocks,
      .finish = s->finish,
  };
  s->loops->dense(&d);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const conv_quantized_state *s = step->state;
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  const uint8_t pad = s->integer ? *(const uint8_t *)step->in[3]->data : s->pad;
  uint8_t *band = (uint8_t *)scratch + constants_bytes(s);
  int64_t gathered = -1;
  for (int64_t i = begin; i < end; i++) {
    const ert_conv_task t = ert_conv_task_at(plan, i);
    const uint8_t *x = step->in[0]->data;
    if (plan->gather && gathered != t.band) {
      gather_band(s, &t, x, pad, band);
      if (s->wide) s->loops->widen(band, (size_t)plan->band_size, (int32_t *)(void *)(band + band_bytes(s)));
    }
    gathered = t.band;
    x += ert_position(&s->x, t.image, t.depth * g->stride[0], t.row * g->stride[1], t.column * g->stride[2]);
    run_task(step, &t, plan->gather ? band : x + t.group * s->channels / 16 * s->x.channel, scratch);
  }
}

extern const ert_kernel ert_kernel_conv_quantized, ert_kernel_conv_integer;
const ert_kernel ert_kernel_conv_quantized = {.name = "conv_quantized", .prepare = prepare, .run = run, .views = true};
const ert_kernel ert_kernel_conv_integer = {
    .name = "conv_integer", .prepare = prepare_integer, .run = run, .views = true};
