/* conv: convolution with packed weights, bias, residual and activation, over planar or blocked activations. */
#include <string.h>

#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_plan.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

/* Output blocks finished at a time when they pass through scratch or an activation function. */
enum { TILE_BLOCKS = 4 };

typedef struct conv_state {
  ert_conv_plan plan;
  const ert_simd *simd;
  ert_finish finish;
  bool store_tile; /* outputs pass through scratch: y is planar, or its groups do not start at blocks */
  size_t n_spans[16], first_span[16]; /* by the lane at which a group's inputs begin */
  ert_span spans[];
} conv_state;

/* Proves all operands and reads the geometry. */
static edgert_status conv_prove(const ert_prepare *p, ert_conv_geometry *g) {
  ERT_TRY(ert_expect_operands(p, 2, 4, 1, 1));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *w = step->in[1], *y = step->out[0];
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  ERT_TRY(ert_expect_dtype(p, w, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, w, ERT_LAYOUT_WEIGHT16));
  if (w->rank != x->rank + 1) return ert_reject(p, "rank of the weights", "one more than the input's", "%d", w->rank);
  ERT_TRY(ert_expect_activations(p, x));
  ERT_TRY(ert_expect_activations(p, y));
  ERT_TRY(ert_conv_geometry_read(p, x, y, w->shape + 3, false, g));
  int64_t shape[ERT_MAX_RANK] = {g->groups, g->filters, g->channels};
  for (int i = 3; i < w->rank; i++) shape[i] = w->shape[i];
  ERT_TRY(ert_expect_shape(p, w, w->rank, shape));
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_layout(p, bias, ERT_LAYOUT_BLOCK16));
    ERT_TRY(ert_expect_shape(p, bias, 2, shape));
  }
  return residual ? ert_expect_same_type(p, y, residual) : EDGERT_OK;
}

static edgert_status conv_prepare(ert_prepare *p) {
  ert_conv_geometry g;
  ERT_TRY(conv_prove(p, &g));
  ert_allow_in_place(p, 3);
  p->step->tasks = 0;
  p->step->scratch_bytes = 0;
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  if (y->elements == 0) return EDGERT_OK;
  const bool y_in_place = y->layout == ERT_LAYOUT_BLOCK16 && (g.groups == 1 || g.filters % 16 == 0);
  ert_conv_plan plan;
  conv_state *s;
  if (!ert_conv_plan_make(&g, x->layout == ERT_LAYOUT_BLOCK16, p->workers, &plan))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  const double positions = (double)plan.rows * (double)plan.columns;
  ERT_TRY(ert_conv_expect_worth(p, plan.band_size, positions * (double)g.filters * (double)plan.weights));
  size_t n_spans[16] = {0}, all = 0;
  for (int64_t group = 0; group < ert_min64(g.groups, 16); group++) { /* their lanes are those of all groups */
    const int64_t lane = ert_conv_plan_lane(&plan, group);
    n_spans[lane] = ert_conv_plan_spans(&plan, lane, NULL);
  }
  for (int lane = 0; lane < 16; lane++) all += n_spans[lane];
  ERT_TRY(ert_state(p, sizeof *s + all * sizeof *s->spans, (void **)&s));
  s->plan = plan;
  s->simd = p->simd;
  s->store_tile = !y_in_place;
  ert_activation activation;
  ERT_TRY(ert_activation_read(p, &activation));
  s->finish = ert_finish_of(activation);
  for (size_t lane = 0, first = 0; lane < 16; first += n_spans[lane], lane++) {
    s->n_spans[lane] = n_spans[lane];
    s->first_span[lane] = first;
    if (n_spans[lane] > 0) ert_conv_plan_spans(&s->plan, (int64_t)lane, s->spans + first);
  }
  const int64_t tile = s->store_tile ? TILE_BLOCKS * plan.rows * plan.columns * 16 : 0;
  p->step->scratch_bytes = (size_t)(plan.band_size + 16 + tile) * sizeof(float);
  p->step->tasks = g.batch * g.groups * plan.g.out[0] * plan.row_bands * plan.column_bands * plan.runs;
  return EDGERT_OK;
}

/* Where one task lies. */
typedef struct conv_task {
  int64_t image, group, depth, row, column, block; /* the first ones */
  int64_t rows, columns, blocks;
  int64_t band; /* number of the band of inputs */
} conv_task;

static conv_task conv_task_at(const ert_conv_plan *plan, int64_t task) {
  const ert_conv_geometry *g = &plan->g;
  conv_task t = {.band = task / plan->runs};
  const int64_t run = task % plan->runs, column_band = t.band % plan->column_bands;
  int64_t rest = t.band / plan->column_bands;
  const int64_t row_band = rest % plan->row_bands;
  rest /= plan->row_bands;
  t.depth = rest % g->out[0];
  t.group = rest / g->out[0] % g->groups;
  t.image = rest / g->out[0] / g->groups;
  t.row = ert_cut_at(g->out[1], plan->row_bands, row_band);
  t.rows = ert_cut_at(g->out[1], plan->row_bands, row_band + 1) - t.row;
  t.column = ert_cut_at(g->out[2], plan->column_bands, column_band);
  t.columns = ert_cut_at(g->out[2], plan->column_bands, column_band + 1) - t.column;
  const int64_t units = (plan->blocks + plan->unit - 1) / plan->unit;
  t.block = ert_cut_at(units, plan->runs, run) * plan->unit;
  t.blocks = ert_min64(ert_cut_at(units, plan->runs, run + 1) * plan->unit, plan->blocks) - t.block;
  return t;
}

/* Copies the inputs that a band of outputs needs to scratch, with zeros where they lie in the padding. */
static void gather_band(const ert_conv_plan *plan, const conv_task *t, const ert_image *x, float *band) {
  const ert_conv_geometry *g = &plan->g;
  const int64_t lanes = plan->lanes, pitch = plan->in_columns * lanes,
                in_columns = (t->columns - 1) * g->stride[2] + g->reach[2] + 1;
  const int64_t in_rows = (t->rows - 1) * g->stride[1] + g->reach[1] + 1;
  const int64_t column = t->column * g->stride[2] - g->pad[2];
  const int64_t lane = ert_conv_plan_lane(plan, t->group), channel = t->group * g->channels - lane;
  const int64_t channels = plan->blocked ? (lane + g->channels + 15) / 16 * 16 : g->channels; /* whole blocks */
  const int64_t left = ert_clamp64(-column, 0, in_columns), right = ert_clamp64(g->in[2] - column, left, in_columns);
  for (int64_t plane = 0; plane < g->kernel[0]; plane++)
    for (int64_t r = 0; r < in_rows; r++) {
      float *line = band + (plane * plan->in_rows + r) * plan->channel_blocks * pitch;
      const int64_t d = t->depth * g->stride[0] - g->pad[0] + plane * g->dilation[0];
      const int64_t h = t->row * g->stride[1] - g->pad[1] + r;
      const bool inside = d >= 0 && d < g->in[0] && h >= 0 && h < g->in[1];
      const int64_t from = inside ? left : in_columns, to = inside ? right : in_columns;
      for (int64_t b = 0; b < plan->channel_blocks; b++) {
        memset(line + b * pitch, 0, (size_t)(from * lanes) * sizeof(float));
        memset(line + b * pitch + to * lanes, 0, (size_t)((in_columns - to) * lanes) * sizeof(float));
      }
      if (from == to) continue;
      const ert_blocks blocks = {line + from * lanes, pitch, lanes};
      ert_gather_channels(x, channel, channels, (d * g->in[1] + h) * g->in[2] + column + from, to - from, blocks);
    }
}

static void activate_rows(const conv_state *s, const ert_dense *d) {
  const ert_activation *a = &s->finish.activation;
  for (size_t b = 0; b < d->blocks; b++)
    for (size_t r = 0; r < d->rows; r++) {
      float *y = d->y + (ptrdiff_t)b * d->y_block + (ptrdiff_t)r * d->y_row;
      s->simd->unary(a->kind, a->alpha, a->beta, y, y, d->pixels * 16);
    }
}

/* Computes some blocks of a band in scratch, then stores them where their channels belong. */
static void run_through_tile(const conv_state *s, const conv_task *t, int64_t block, ert_dense *d, const ert_image *y,
                             const ert_image *residual, float *tile) {
  const ert_conv_geometry *g = &s->plan.g;
  const int64_t filter = t->group * g->filters + block * 16;
  const int64_t filters = ert_min64((int64_t)d->blocks * 16, g->filters - block * 16);
  const int64_t line = t->columns * 16, first = (t->depth * g->out[1] + t->row) * g->out[2] + t->column;
  d->y = tile;
  d->y_row = line;
  d->y_block = line * t->rows;
  d->residual = residual ? tile : NULL;
  for (int64_t r = 0; residual && r < t->rows; r++) {
    const ert_blocks blocks = {tile + r * line, d->y_block, 16};
    ert_gather_channels(residual, filter, filters, first + r * g->out[2], t->columns, blocks);
  }
  s->simd->dense(d);
  if (s->finish.function) activate_rows(s, d);
  for (int64_t r = 0; r < t->rows; r++) {
    const ert_blocks blocks = {tile + r * line, d->y_block, 16};
    ert_scatter_channels(blocks, y, filter, filters, first + r * g->out[2], t->columns);
  }
}

static void run_task(const ert_step *step, const conv_task *t, const float *x, float *tile) {
  const conv_state *s = step->state;
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  const int64_t positions = ert_volume(g->out), filters = g->groups * g->filters;
  const ert_image y = ert_image_of(step->out[0], t->image, filters, positions);
  const ert_image r = residual ? ert_image_of(residual, t->image, filters, positions) : (ert_image){0};
  const bool piecewise = s->store_tile || s->finish.function;
  const int64_t lane = ert_conv_plan_lane(plan, t->group);
  const int64_t step_blocks = piecewise ? TILE_BLOCKS : t->blocks;
  for (int64_t block = t->block; block < t->block + t->blocks; block += step_blocks) {
    const int64_t packed = t->group * plan->blocks + block;
    const int64_t at = packed * positions * 16 + ((t->depth * g->out[1] + t->row) * g->out[2] + t->column) * 16;
    ert_dense d = {
        .x = x,
        .x_pixel = plan->x_pixel,
        .x_row = plan->x_row,
        .spans = s->spans + s->first_span[lane],
        .n_spans = s->n_spans[lane],
        .w = (const float *)step->in[1]->data + (size_t)packed * plan->weights * 16,
        .w_block = (ptrdiff_t)plan->weights * 16,
        .bias = bias ? (const float *)bias->data + packed * 16 : NULL,
        .y_pixel = 16,
        .rows = (size_t)t->rows,
        .pixels = (size_t)t->columns,
        .blocks = (size_t)ert_min64(step_blocks, t->block + t->blocks - block),
        .lo = s->finish.lo,
        .hi = s->finish.hi,
    };
    if (s->store_tile) {
      run_through_tile(s, t, block, &d, &y, residual ? &r : NULL, tile);
      continue;
    }
    d.y = y.data + at;
    d.residual = residual ? r.data + at : NULL;
    d.y_row = g->out[2] * 16;
    d.y_block = positions * 16;
    s->simd->dense(&d);
    if (s->finish.function) activate_rows(s, &d);
  }
}

static void conv_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const conv_state *s = step->state;
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  float *band = scratch, *tile = band + (plan->band_size + 15) / 16 * 16;
  int64_t gathered = -1;
  for (int64_t i = begin; i < end; i++) {
    const conv_task t = conv_task_at(plan, i);
    const int64_t positions = ert_volume(g->in);
    const ert_image image = ert_image_of(step->in[0], t.image, g->groups * g->channels, positions);
    const int64_t first =
        (t.depth * g->stride[0] * g->in[1] + t.row * g->stride[1]) * g->in[2] + t.column * g->stride[2];
    if (plan->gather && gathered != t.band) gather_band(plan, &t, &image, band);
    gathered = t.band;
    run_task(step, &t, plan->gather ? band : image.data + (t.group * g->channels / 16 * positions + first) * 16, tile);
  }
}

extern const ert_kernel ert_kernel_conv;
const ert_kernel ert_kernel_conv = {.name = "conv", .prepare = conv_prepare, .run = conv_run};
