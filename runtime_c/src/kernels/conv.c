/* conv: convolution with packed weights, bias, residual and activation, over planar or blocked activations. conv_bf16: the
 * same with inputs rounded to bf16 while they are gathered, planar ones for lines of the kernel at a time. */
#include <string.h>

#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_plan.h"
#include "kernels/partition.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/weights.h"

enum {
  /* Output blocks finished at a time if they have parts, or go through passes, scratch or a function. */
  TILE_BLOCKS = 4,
  /* Bytes of their weights that the second-level cache keeps meanwhile. If there are more, these pass by some at a time, and
   * the sums wait in the outputs; but only whole chains do, even ones of pairs. */
  KEPT = 768 * 1024,
  PASS_BYTES = 512 * 1024,
  PASS_UNIT = 2 * ERT_CHAIN,
  LEAST_POSITIONS = 12, /* that need weights again and again */
  PART_COLUMNS = 4,     /* at least of a part: narrower tiles take longer than products with zeros */
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
  /* Outputs go through scratch: y is planar, its groups do not start at blocks, residual has other strides, or has to wait for
   * sums that pass by pass are made in y. */
  bool store_tile;
  int64_t at_a_time;    /* output blocks */
  int64_t pass, passes; /* rows of weights of a block that pass by at a time, and how often */
  conv_parts parts;
  int64_t period;      /* groups so far apart begin at the same lane */
  conv_inputs *inputs; /* [period][parts of depth][passes][of rows][of columns] */
  ert_span spans[];
} conv_state;

/* Where scratch has the tile, or the line that is to be rounded, behind the band. */
static size_t tile_at(const conv_state *s) { return ((size_t)s->plan.band_size * s->element + 63) / 64 * 64; }

/* Floats of a tile. */
static int64_t tile_size(const conv_state *s) { return TILE_BLOCKS * s->plan.rows * s->plan.columns * 16; }

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

/* Finds which of the `n` spans from `first` on, those of a part, belong to each pass. */
static void share_inputs(const conv_state *s, size_t first, size_t n, conv_inputs *inputs) {
  const size_t end = first + n;
  size_t row = 0;
  for (int64_t pass = 1; pass <= s->passes; pass++, inputs += s->parts.n[1] * s->parts.n[2]) {
    *inputs = (conv_inputs){.first = first};
    for (; first < end && row < (size_t)(pass * s->pass); first++) row += s->spans[first].skip + s->spans[first].count;
    inputs->n = first - inputs->first;
  }
}

/* Lists what every part sees in each pass, and returns the number of spans; or only counts them where there is no place for
 * the list. */
static size_t list_inputs(conv_state *s) {
  size_t all = 0;
  conv_inputs *inputs = s->inputs;
  const conv_parts *parts = &s->parts;
  for (int64_t group = 0; group < s->period; group++)
    for (int d = 0; d < parts->n[0]; d++) {
      for (int h = 0; h < parts->n[1]; h++)
        for (int w = 0; w < parts->n[2]; w++) {
          const ert_conv_part *const taps[3] = {&parts->part[0][d], &parts->part[1][h], &parts->part[2][w]};
          const size_t n = ert_conv_plan_spans(&s->plan, taps, ert_conv_plan_lane(&s->plan, group), s->pass,
                                               inputs ? s->spans + all : NULL);
          if (inputs) share_inputs(s, all, n, inputs + h * parts->n[2] + w);
          all += n;
        }
      if (inputs) inputs += s->passes * parts->n[1] * parts->n[2];
    }
  return all;
}

/* Where a cache cannot keep weights while all their positions are computed, these are computed together from a part of the
 * weights at a time: the first-level cache those of one block, if tiles are short; or else the second-level one those of some
 * blocks. */
static void cut_weights(conv_state *s) {
  const int64_t rows = (int64_t)s->plan.weights, row = 16 * ert_weights_bytes(s->weights);
  const int64_t units = ert_ceil_divide(ert_ceil_divide(s->plan.blocks, s->plan.unit), s->plan.runs);
  const int64_t bytes = ert_min64(TILE_BLOCKS, ert_min64(units * s->plan.unit, s->plan.blocks)) * row * rows;
  s->pass = ert_max64(rows, 1);
  const int64_t positions = s->plan.rows * s->plan.columns, near = (int64_t)s->simd->dense_pass;
  if (near > 0 && rows > near && positions >= LEAST_POSITIONS) {
    s->pass = near;
  } else if (bytes > KEPT && positions > 1) {
    const int64_t passes = ert_ceil_divide(bytes, PASS_BYTES);
    s->pass = ert_ceil_divide(rows, passes * PASS_UNIT) * PASS_UNIT;
  }
  s->passes = ert_max64(ert_ceil_divide(rows, s->pass), 1);
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
  const ert_conv_inputs read = lines ? ERT_CONV_LINES : rounded ? ERT_CONV_COPIED : ERT_CONV_IN_PLACE;
  ert_conv_plan plan;
  if (!ert_conv_plan_make(&g, &x, joined, p->workers, read, &plan))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  const double positions = (double)plan.rows * (double)plan.columns;
  ERT_TRY(ert_conv_expect_worth(p, plan.band_size, positions * (double)g.filters * (double)plan.weights));
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  conv_state found = {
      .plan = plan,
      .simd = p->simd,
      .weights = ert_weights_of(p->step->in[1]),
      .rounded = rounded,
      .element = rounded ? p->simd->bf16_bytes : sizeof(float),
      .finish = ert_finish_of(activation),
      .x = x,
      .y = y,
      .residual = residual,
      .w = ert_weight_strides_of(p->step->in[1]),
      .bias_group = bias ? ert_stride(bias, 0) : 0,
      .parts = parts_of(&plan),
      .period = period_of(&plan),
  };
  cut_weights(&found);
  const conv_parts *parts = &found.parts;
  const bool add = p->step->n_in > 3, in_passes = found.passes > 1;
  found.store_tile = !aligned || residual.row != y.row || residual.channel != y.channel || (add && in_passes);
  const bool near = in_passes && found.pass == (int64_t)p->simd->dense_pass;
  const bool whole =
      (near || (parts->n[1] * parts->n[2] == 1 && !in_passes)) && !found.store_tile && !found.finish.function;
  found.at_a_time = whole ? plan.blocks : TILE_BLOCKS;
  const int64_t n_inputs = found.period * parts->n[0] * found.passes * parts->n[1] * parts->n[2];
  const size_t spans_bytes = list_inputs(&found) * sizeof *found.spans;
  conv_state *s;
  ERT_TRY(ert_state(p, sizeof *s + spans_bytes + (size_t)n_inputs * sizeof *s->inputs, (void **)&s));
  *s = found;
  s->inputs = (conv_inputs *)(void *)((char *)s->spans + spans_bytes);
  list_inputs(s);
  const int64_t tile = s->store_tile ? tile_size(s) * (add && in_passes ? 2 : 1) : 0;
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
      if (r % g->stride[1] > g->reach[1]) continue; /* no tap reads it */
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

/* What the products of a pass have to do. */
static ert_dense in_pass(const conv_state *s, const ert_dense *all, int64_t pass) {
  ert_dense d = *all;
  const int64_t row = pass * s->pass;
  d.w = (const char *)d.w + row * 16 * ert_weights_bytes(s->weights);
  d.w_pass = ert_min64(s->pass, (int64_t)s->plan.weights - row) * 16;
  d.begun = pass > 0;
  if (d.begun) d.bias = NULL;
  if (pass + 1 == s->passes) return d;
  d.residual = NULL;
  d.lo = -INFINITY;
  d.hi = INFINITY;
  return d;
}

/* Computes some blocks of a band. */
static void multiply(const conv_state *s, const ert_conv_task *t, const ert_dense *d) {
  const conv_parts *parts = &s->parts;
  const int64_t each = parts->n[1] * parts->n[2];
  int64_t depth = 0;
  while (t->depth < parts->part[0][depth].begin || t->depth >= parts->part[0][depth].end) depth++;
  const conv_inputs *inputs = s->inputs + (t->group % s->period * parts->n[0] + depth) * s->passes * each;
  for (int64_t pass = 0; pass < s->passes; pass++) {
    const ert_dense some = s->passes > 1 ? in_pass(s, d, pass) : *d;
    for (int h = 0; h < parts->n[1]; h++)
      for (int w = 0; w < parts->n[2]; w++)
        multiply_part(s, t, &some, &parts->part[1][h], &parts->part[2][w], *inputs++);
  }
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
  const ert_blocks blocks = {tile, d->y_block, 16};
  if (residual) {
    const ert_blocks added = {s->passes > 1 ? tile + tile_size(s) : tile, d->y_block, 16};
    ert_gather_channels(residual, &s->residual, filter, filters, t->rows, t->columns, added);
    d->residual = added.data;
  }
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
