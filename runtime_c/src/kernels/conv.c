/* conv: convolution with packed weights, bias, residual and activation, over planar or blocked activations. conv_bf16: the
 * same with inputs rounded to bf16 while they are gathered, planar ones for lines of the kernel at a time. */
#include <string.h>

#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_plan.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/weights.h"

enum {
  TILE_BLOCKS = 4,   /* output blocks finished at a time when they have parts, or pass through scratch or a function: */
  KEPT = 768 * 1024, /* no more than have so many bytes of weights, which the second-level cache keeps meanwhile; */
  FEW = 20, /* half as many where they are no streams and positions are fewer, as the next ones come there, too */
  PART_COLUMNS = 4, /* at least of a part: narrower tiles take longer than products with zeros */
};

/* Outputs that see padding are computed without the taps that do. */
typedef struct conv_parts {
  int n[3]; /* along depth, rows and columns */
  ert_conv_part part[3][ERT_CONV_PARTS];
} conv_parts;

/* What the outputs of a part see. */
typedef struct conv_inputs {
  size_t first, n; /* of the spans */
} conv_inputs;

typedef struct conv_state {
  ert_conv_plan plan;
  const ert_simd *simd;
  ert_weights weights;
  bool rounded;   /* inputs to bf16 */
  size_t element; /* bytes of an input that is gathered */
  ert_finish finish;
  ert_strides x, y, residual;
  ert_weight_strides w;
  int64_t bias_group;
  /* Outputs pass through scratch: y is planar, its groups do not start at blocks, or residual has other strides. */
  bool store_tile;
  int64_t at_a_time; /* output blocks */
  conv_parts parts;
  int64_t period;      /* groups so far apart begin at the same lane */
  conv_inputs *inputs; /* [period][parts of depth][of rows][of columns] */
  ert_span spans[];
} conv_state;

/* Where scratch has the tile, or the line that is to be rounded, behind the band. */
static size_t tile_at(const conv_state *s) { return ((size_t)s->plan.band_size * s->element + 63) / 64 * 64; }

static int64_t outputs_of(ert_conv_part part) { return part.end - part.begin; }

/* The largest parts come first: while they are computed, the next weights are fetched. */
static conv_parts parts_of(const ert_conv_plan *plan) {
  conv_parts parts = {.n = {1, 1, 1}};
  for (int d = 0; d < 3; d++) {
    ert_conv_part *part = parts.part[d];
    if (plan->line && d == 2)
      part[0] = ert_conv_whole(&plan->g, d);
    else
      parts.n[d] = ert_conv_cut(&plan->g, d, d == 2 ? PART_COLUMNS : 1, part);
    for (int i = 1; i < parts.n[d]; i++)
      if (outputs_of(part[i]) > outputs_of(part[0])) {
        const ert_conv_part largest = part[i];
        part[i] = part[0];
        part[0] = largest;
      }
  }
  return parts;
}

/* Groups until one begins at the lane of the first one again, or all. */
static int64_t period_of(const ert_conv_plan *plan) {
  return plan->blocked ? ert_min64(plan->g.groups, 16 / ert_common_divisor(plan->g.channels, 16)) : 1;
}

/* Lists what every part sees. Returns the number of spans; these go to `spans`, and where those of each part lie to `inputs`,
 * unless both are NULL. */
static size_t list_inputs(const ert_conv_plan *plan, const conv_parts *parts, int64_t period, ert_span *spans,
                          conv_inputs *inputs) {
  size_t all = 0;
  for (int64_t group = 0; group < period; group++)
    for (int d = 0; d < parts->n[0]; d++)
      for (int h = 0; h < parts->n[1]; h++)
        for (int w = 0; w < parts->n[2]; w++) {
          const ert_conv_part *const taps[3] = {&parts->part[0][d], &parts->part[1][h], &parts->part[2][w]};
          const size_t n = ert_conv_plan_spans(plan, taps, ert_conv_plan_lane(plan, group), spans ? spans + all : NULL);
          if (inputs) *inputs++ = (conv_inputs){all, n};
          all += n;
        }
  return all;
}

/* Output blocks that are finished before the next ones are begun. */
static int64_t blocks_at_a_time(const conv_state *s) {
  if (!s->store_tile && !s->finish.function && s->parts.n[1] * s->parts.n[2] == 1) return s->plan.blocks;
  const int64_t bytes = ert_max64(s->w.block * (int64_t)ert_weights_bytes(s->weights), 1);
  const int64_t kept = KEPT / bytes;
  if (s->plan.rows * s->plan.columns < FEW && kept < ERT_DENSE_STREAMS) return ert_max64(kept / 2, 1);
  return ert_clamp64(kept, 2, TILE_BLOCKS);
}

static edgert_status prepare(ert_prepare *p, bool rounded) {
  ert_conv_geometry g;
  const bool lines = rounded && p->step->in[0]->layout == ERT_LAYOUT_PLANAR;
  ERT_TRY(ert_conv_expect_packed(p, lines, &g));
  ert_allow_in_place(p, 3);
  const ert_tensor *bias = p->step->n_in > 2 ? p->step->in[2] : NULL;
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  ert_strides x, y, residual;
  ert_strides_of_step(p->step, 3, &x, &y, &residual);
  const bool aligned = y.blocked && (g.groups == 1 || g.filters % 16 == 0);
  const bool joined =
      ert_positions_joined(&x, g.in) && ert_positions_joined(&y, g.out) && ert_positions_joined(&residual, g.out);
  ert_conv_plan plan;
  conv_state *s;
  const ert_conv_inputs read = lines ? ERT_CONV_LINES : rounded ? ERT_CONV_COPIED : ERT_CONV_IN_PLACE;
  if (!ert_conv_plan_make(&g, &x, joined, p->workers, read, &plan))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  const double positions = (double)plan.rows * (double)plan.columns;
  ERT_TRY(ert_conv_expect_worth(p, plan.band_size, positions * (double)g.filters * (double)plan.weights));
  const conv_parts parts = parts_of(&plan);
  const int64_t period = period_of(&plan), n_inputs = period * parts.n[0] * parts.n[1] * parts.n[2];
  const size_t spans_bytes = list_inputs(&plan, &parts, period, NULL, NULL) * sizeof *s->spans;
  ERT_TRY(ert_state(p, sizeof *s + spans_bytes + (size_t)n_inputs * sizeof *s->inputs, (void **)&s));
  s->plan = plan;
  s->simd = p->simd;
  s->weights = ert_weights_of(p->step->in[1]);
  s->rounded = rounded;
  s->element = rounded ? p->simd->bf16_bytes : sizeof(float);
  s->x = x, s->y = y, s->residual = residual;
  s->w = ert_weight_strides_of(p->step->in[1]);
  s->bias_group = bias ? ert_stride(bias, 0) : 0;
  s->store_tile = !aligned || residual.row != y.row || residual.channel != y.channel;
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  s->finish = ert_finish_of(activation);
  s->parts = parts;
  s->at_a_time = blocks_at_a_time(s);
  s->period = period;
  s->inputs = (conv_inputs *)(void *)((char *)s->spans + spans_bytes);
  list_inputs(&s->plan, &s->parts, period, s->spans, s->inputs);
  const int64_t tile = s->store_tile ? TILE_BLOCKS * plan.rows * plan.columns * 16 : 0;
  p->step->scratch_bytes = tile_at(s) + (size_t)ert_max64(tile, plan.line ? plan.row : 0) * sizeof(float);
  p->step->tasks = g.batch * g.groups * plan.g.out[0] * plan.row_bands * plan.column_bands * plan.runs;
  return EDGERT_OK;
}

static edgert_status conv_prepare(ert_prepare *p) { return prepare(p, false); }

static edgert_status conv_bf16_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 4, 1, 1));
  ERT_TRY(ert_expect_dtype(p, p->step->in[1], EDGERT_BF16));
  return prepare(p, true);
}

/* Rounds columns [from, to) of planar channels, the first of which begin at x, to a line of scratch: all channels of a column
 * side by side, between zeros. */
static void gather_line(const conv_state *s, const float *x, int64_t channel, int64_t from, int64_t to, float *line,
                        char *rounded) {
  const ert_conv_plan *plan = &s->plan;
  const ert_blocks blocks = {line + from * plan->lanes, 16, plan->lanes};
  memset(line, 0, (size_t)(from * plan->lanes) * sizeof(float));
  memset(line + to * plan->lanes, 0, (size_t)(plan->row - to * plan->lanes) * sizeof(float));
  if (from < to) ert_gather_channels(x, &s->x, channel, plan->g.channels, 1, to - from, blocks);
  s->simd->round_bf16(line, rounded, (size_t)plan->row);
}

/* Copies the inputs that a band of outputs needs to scratch, with zeros where they lie in the padding. */
static void gather_band(const conv_state *s, const ert_conv_task *t, const float *x, char *band) {
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  const int64_t element = (int64_t)s->element, lanes = plan->lanes,
                in_columns = (t->columns - 1) * g->stride[2] + g->reach[2] + 1;
  const int64_t in_rows = (t->rows - 1) * g->stride[1] + g->reach[1] + 1;
  const int64_t column = t->column * g->stride[2] - g->pad[2];
  const int64_t lane = ert_conv_plan_lane(plan, t->group), channel = t->group * g->channels - lane;
  const int64_t channels = plan->blocked ? (lane + g->channels + 15) / 16 * 16 : g->channels; /* whole blocks */
  const int64_t left = ert_clamp64(-column, 0, in_columns), right = ert_clamp64(g->in[2] - column, left, in_columns);
  for (int64_t plane = 0; plane < g->kernel[0]; plane++)
    for (int64_t r = 0; r < in_rows; r++) {
      char *line = band + (plane * plan->plane + r * plan->row) * element;
      const int64_t d = t->depth * g->stride[0] - g->pad[0] + plane * g->dilation[0];
      const int64_t h = t->row * g->stride[1] - g->pad[1] + r;
      const bool inside = d >= 0 && d < g->in[0] && h >= 0 && h < g->in[1];
      const int64_t from = inside ? left : in_columns, to = inside ? right : in_columns;
      if (plan->line > 0) {
        const float *first = from < to ? x + ert_position(&s->x, t->image, d, h, column + from) : x;
        gather_line(s, first, channel, from, to, (float *)(void *)(band + tile_at(s)), line);
        continue;
      }
      for (int64_t b = 0; b < plan->channel_blocks; b++) {
        char *block = line + b * plan->block * element;
        memset(block, 0, (size_t)(from * lanes * element));
        memset(block + to * lanes * element, 0, (size_t)((in_columns - to) * lanes * element));
      }
      if (from == to) continue;
      const float *first = x + ert_position(&s->x, t->image, d, h, column + from);
      char *inner = line + from * lanes * element;
      if (!s->rounded) {
        const ert_blocks blocks = {(float *)(void *)inner, plan->block, lanes};
        ert_gather_channels(first, &s->x, channel, channels, 1, to - from, blocks);
        continue;
      }
      for (int64_t b = 0; b < channels / 16; b++)
        s->simd->round_bf16(first + (channel / 16 + b) * s->x.channel, inner + b * plan->block * element,
                            (size_t)((to - from) * 16));
    }
}

/* Computes what of a band lies in a part of the rows and one of the columns, which see `inputs`. */
static void multiply_part(const conv_state *s, const ert_conv_task *t, const ert_dense *band, const ert_conv_part *rows,
                          const ert_conv_part *columns, conv_inputs inputs) {
  const int64_t row = ert_max64(rows->begin - t->row, 0), end_row = ert_min64(rows->end - t->row, t->rows);
  const int64_t column = ert_max64(columns->begin - t->column, 0),
                end_column = ert_min64(columns->end - t->column, t->columns);
  if (row >= end_row || column >= end_column) return;
  ert_dense d = *band;
  const ptrdiff_t y = row * d.y_row + column * d.y_pixel;
  d.x = (const char *)d.x + (row * d.x_row + column * d.x_pixel) * (int64_t)s->element;
  d.y += y;
  if (d.residual) d.residual += y;
  d.rows = (size_t)(end_row - row);
  d.pixels = (size_t)(end_column - column);
  d.spans = s->spans + inputs.first;
  d.n_spans = inputs.n;
  (s->rounded ? s->simd->dense_bf16 : s->simd->dense)(&d);
}

/* Computes some blocks of a band. */
static void multiply(const conv_state *s, const ert_conv_task *t, const ert_dense *d) {
  const conv_parts *parts = &s->parts;
  int64_t depth = 0;
  while (t->depth < parts->part[0][depth].begin || t->depth >= parts->part[0][depth].end) depth++;
  const conv_inputs *inputs = s->inputs + (t->group % s->period * parts->n[0] + depth) * parts->n[1] * parts->n[2];
  for (int h = 0; h < parts->n[1]; h++)
    for (int w = 0; w < parts->n[2]; w++) multiply_part(s, t, d, &parts->part[1][h], &parts->part[2][w], *inputs++);
  ert_finish_stored(&s->finish, s->simd, d->y, d->blocks, d->y_block, d->rows, d->y_row, d->pixels * 16);
}

/* Computes some blocks of a band in scratch, then stores them where their channels belong. y and residual are at the first
 * position of the band. */
static void run_through_tile(const conv_state *s, const ert_conv_task *t, int64_t block, ert_dense *d, float *y,
                             const float *residual, float *tile) {
  const ert_conv_geometry *g = &s->plan.g;
  const int64_t filter = t->group * g->filters + block * 16;
  const int64_t filters = ert_min64((int64_t)d->blocks * 16, g->filters - block * 16);
  d->y = tile;
  d->y_row = t->columns * 16;
  d->y_block = t->rows * d->y_row;
  d->residual = residual ? tile : NULL;
  const ert_blocks blocks = {tile, d->y_block, 16};
  if (residual) ert_gather_channels(residual, &s->residual, filter, filters, t->rows, t->columns, blocks);
  multiply(s, t, d);
  ert_scatter_channels(blocks, y, &s->y, filter, filters, t->rows, t->columns);
}

static void run_task(const ert_step *step, const ert_conv_task *t, const void *x, float *tile) {
  const conv_state *s = step->state;
  const ert_conv_plan *plan = &s->plan;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  float *y = (float *)step->out[0]->data + ert_position(&s->y, t->image, t->depth, t->row, t->column);
  const float *r = NULL;
  if (residual) r = (const float *)residual->data + ert_position(&s->residual, t->image, t->depth, t->row, t->column);
  for (int64_t block = t->block; block < t->block + t->blocks; block += s->at_a_time) {
    ert_dense d = {
        .x = x,
        .x_pixel = plan->x_pixel,
        .x_row = plan->x_row,
        .w = (const char *)step->in[1]->data +
             (t->group * s->w.group + block * s->w.block) * ert_weights_bytes(s->weights),
        .w_block = s->w.block,
        .weights = s->weights,
        .bias = bias ? (const float *)bias->data + t->group * s->bias_group + block * 16 : NULL,
        .y_pixel = 16,
        .rows = (size_t)t->rows,
        .pixels = (size_t)t->columns,
        .blocks = (size_t)ert_min64(s->at_a_time, t->block + t->blocks - block),
        .lo = s->finish.lo,
        .hi = s->finish.hi,
    };
    if (s->store_tile) {
      run_through_tile(s, t, block, &d, y, r, tile);
      continue;
    }
    const int64_t at = (t->group * plan->blocks + block) * s->y.channel;
    d.y = y + at;
    d.residual = r ? r + at : NULL;
    d.y_row = s->y.row;
    d.y_block = s->y.channel;
    multiply(s, t, &d);
  }
}

static void conv_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const conv_state *s = step->state;
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  char *band = scratch;
  float *tile = (float *)(void *)(band + tile_at(s));
  int64_t gathered = -1;
  for (int64_t i = begin; i < end; i++) {
    const ert_conv_task t = ert_conv_task_at(plan, i);
    const float *x = step->in[0]->data;
    if (plan->gather && gathered != t.band) gather_band(s, &t, x, band);
    gathered = t.band;
    x += ert_position(&s->x, t.image, t.depth * g->stride[0], t.row * g->stride[1], t.column * g->stride[2]);
    run_task(step, &t, plan->gather ? (const void *)band : x + t.group * g->channels / 16 * s->x.channel, tile);
  }
}

extern const ert_kernel ert_kernel_conv;
const ert_kernel ert_kernel_conv = {
    .name = "conv", .prepare = conv_prepare, .run = conv_run, .views = true, .reduced = true};

extern const ert_kernel ert_kernel_conv_bf16;
const ert_kernel ert_kernel_conv_bf16 = {
    .name = "conv_bf16", .prepare = conv_bf16_prepare, .run = conv_run, .views = true, .reduced = true};
