/* conv_direct: convolution of planar activations as they lie: vectors run along the pixels of a row. */
#include <string.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/conv_plan.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

enum {
  FEW_BLOCKS = 4,         /* of 16 filters, that read inputs in place */
  MOST_POSITIONS = 4096,  /* whose sums may wait for another pass */
  SUM_FLOATS = 32 * 1024, /* of blocks that wait for the next pass together, in the second-level cache */
};

/* The inputs of a band are copied to scratch, zero-padded: [planes][in_rows][channels][phases][line]. Phase i of a row is what
 * the taps i, i + phases, ... see: every stride-th column, so that neighbouring outputs read neighbours. But where there is
 * one tap and filters are so few that copies would not be read often, inputs are read in place, in whole vectors; unless passes
 * keep them in the first-level cache, where those of channels far apart are in each other's way. */
typedef struct direct_state {
  ert_conv_plan plan;
  const ert_simd *simd;
  ert_finish finish;
  ert_strides x, y, residual;
  ert_weight_strides w;
  int64_t bias_group;
  bool in_place;
  int64_t phases, line, row; /* row: floats of all channels */
  size_t pass;               /* taps that pass by at a time */
  int64_t at_a_time, sums;   /* blocks whose sums wait for the next pass, floats of each */
  size_t sums_at;            /* in scratch, floats */
  ptrdiff_t taps[];          /* where the inputs of each tap lie, in the order of the weights */
} direct_state;

/* Lays out the band in `line`, `phases` and `row`; false if its size overflows. */
static bool lay_out(direct_state *s, size_t *floats) {
  const ert_conv_plan *plan = &s->plan;
  const ert_conv_geometry *g = &plan->g;
  s->phases = ert_tap_phases(g, 2);
  s->line = ((plan->columns + g->reach[2] / g->stride[2] + 15) / 16 | 1) * 16; /* an odd number of cache lines */
  size_t size = (size_t)s->line;
  if (!ert_multiply(size, (size_t)s->phases, &size) || !ert_multiply(size, (size_t)g->channels, &size)) return false;
  s->row = (int64_t)size;
  if (!ert_multiply(size, (size_t)plan->in_rows, &size) || !ert_multiply(size, (size_t)g->kernel[0], &size))
    return false;
  *floats = size + ERT_DIRECT_SLACK;
  return size <= SIZE_MAX / 64;
}

/* Whether outputs are one row, each made of inputs at its own position, whose bands begin and end with whole vectors. */
static bool reads_in_place(const ert_conv_plan *plan) {
  const ert_conv_geometry *g = &plan->g;
  const bool flat = ert_volume(g->kernel) == 1 && g->stride[2] == 1 && g->in[2] == g->out[2] && g->pad[2] == 0;
  const bool whole = g->out[2] % (16 * plan->column_bands) == 0;
  return plan->gather && flat && whole && g->in[0] == 1 && g->in[1] == 1 && plan->blocks <= FEW_BLOCKS;
}

static void place_taps(direct_state *s) {
  const ert_conv_geometry *g = &s->plan.g;
  ptrdiff_t *tap = s->taps;
  if (s->in_place) {
    for (int64_t c = 0; c < g->channels; c++) tap[c] = c * s->x.channel;
    return;
  }
  for (int64_t block = 0; block < g->channels; block += 16)
    for (int64_t d = 0; d < g->kernel[0]; d++)
      for (int64_t h = 0; h < g->kernel[1]; h++)
        for (int64_t w = 0; w < g->kernel[2]; w++)
          for (int64_t c = block; c < ert_min64(block + 16, g->channels); c++)
            *tap++ = (d * s->plan.in_rows + h * g->dilation[1]) * s->row + (c * s->phases + w % s->phases) * s->line +
                     w * g->dilation[2] / g->stride[2];
}

/* Taps of a pass, and how many blocks go through all passes together. Channels are few where positions are many, and so are
 * the inputs that a tile needs. */
static void cut_taps(direct_state *s) {
  const ert_conv_plan *plan = &s->plan;
  const size_t pass = s->simd->direct_pass;
  const int64_t positions = plan->rows * ((plan->columns + 15) / 16 * 16);
  const bool all = pass == 0 || plan->weights <= pass || positions <= 16 || positions > MOST_POSITIONS;
  s->pass = all ? plan->weights : pass;
  s->sums = all ? 0 : positions * 16;
  s->at_a_time = all ? plan->blocks : ert_clamp64(SUM_FLOATS / s->sums, 1, plan->blocks);
}

static edgert_status direct_prepare(ert_prepare *p) {
  ert_conv_geometry g;
  ert_activation activation;
  ERT_TRY(ert_conv_expect_packed(p, false, &g));
  ERT_TRY(ert_expect_layout(p, p->step->in[0], ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_layout(p, p->step->out[0], ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_activation_read(p, &activation));
  ert_allow_in_place(p, 3);
  const ert_tensor *out = p->step->out[0];
  const ert_tensor *bias = p->step->n_in > 2 ? p->step->in[2] : NULL;
  if (out->elements == 0) return EDGERT_OK;
  direct_state state = {.simd = p->simd, .finish = ert_finish_of(activation)}, *s;
  ert_strides_of_step(p->step, 3, &state.x, &state.y, &state.residual);
  state.w = ert_weight_strides_of(p->step->in[1]);
  state.bias_group = bias ? ert_stride(bias, 0) : 0;
  const bool joined = ert_positions_joined(&state.x, g.in) && ert_positions_joined(&state.y, g.out) &&
                      ert_positions_joined(&state.residual, g.out);
  size_t band;
  if (!ert_conv_plan_make(&g, &state.x, joined, p->workers, ERT_CONV_IN_PLACE, &state.plan) || !lay_out(&state, &band))
    return ert_reject(p, "inputs of one output row", "fewer bytes than memory can have", "more");
  const ert_conv_plan *plan = &state.plan;
  state.in_place = p->simd->direct_pass == 0 && reads_in_place(plan);
  cut_taps(&state);
  const double positions = (double)plan->rows * (double)plan->columns;
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)band, positions * (double)g.filters * (double)plan->weights));
  ERT_TRY(ert_state(p, sizeof *s + plan->weights * sizeof *s->taps, (void **)&s));
  *s = state;
  place_taps(s);
  s->sums_at = state.in_place ? 0 : (band + 15) / 16 * 16;
  p->step->scratch_bytes = (s->sums_at + (size_t)(state.at_a_time * state.sums)) * sizeof(float);
  p->step->tasks = g.batch * g.groups * plan->g.out[0] * plan->row_bands * plan->column_bands * plan->runs;
  return EDGERT_OK;
}

/* to[i] = row[first + i * stride] for i < n, and 0 where that lies outside of the row's `width` floats. */
static void gather_line(const float *row, int64_t width, int64_t first, int64_t stride, float *to, int64_t n) {
  int64_t begin, end;
  ert_taps_inside(first, stride, n, width, &begin, &end);
  memset(to, 0, (size_t)begin * sizeof(float));
  memset(to + end, 0, (size_t)(n - end) * sizeof(float));
  if (stride == 1)
    memcpy(to + begin, row + first + begin, (size_t)(end - begin) * sizeof(float));
  else if (stride == 2) /* a loop that compilers turn into vectors */
    for (int64_t i = begin; i < end; i++) to[i] = row[first + i * 2];
  else
    for (int64_t i = begin; i < end; i++) to[i] = row[first + i * stride];
}

/* Copies the inputs that a band of outputs needs to scratch, with zeros where they lie in the padding. */
static void gather_band(const direct_state *s, const ert_conv_task *t, const float *x, float *band) {
  const ert_conv_geometry *g = &s->plan.g;
  const int64_t in_rows = (t->rows - 1) * g->stride[1] + g->reach[1] + 1;
  const int64_t column = t->column * g->stride[2] - g->pad[2];
  for (int64_t plane = 0; plane < g->kernel[0]; plane++)
    for (int64_t r = 0; r < in_rows; r++) {
      if (r % g->stride[1] > g->reach[1]) continue; /* no tap reads it */
      float *line = band + (plane * s->plan.in_rows + r) * s->row;
      const int64_t d = t->depth * g->stride[0] - g->pad[0] + plane * g->dilation[0];
      const int64_t h = t->row * g->stride[1] - g->pad[1] + r;
      if (d < 0 || d >= g->in[0] || h < 0 || h >= g->in[1]) {
        memset(line, 0, (size_t)s->row * sizeof(float));
        continue;
      }
      const float *from = x + ert_position(&s->x, t->image, d, h, 0) + t->group * g->channels * s->x.channel;
      for (int64_t c = 0; c < g->channels; c++, from += s->x.channel)
        for (int64_t phase = 0; phase < s->phases; phase++, line += s->line)
          gather_line(from, g->in[2], column + phase * g->dilation[2] % g->stride[2], g->stride[2], line, s->line);
    }
  memset(band + g->kernel[0] * s->plan.in_rows * s->row, 0, ERT_DIRECT_SLACK * sizeof(float));
}

/* The products of a block with the taps from number `tap` on. `band`: the inputs, at its first position. */
static void run_block(const ert_step *step, const ert_conv_task *t, const float *band, int64_t block, size_t tap,
                      float *sums) {
  const direct_state *s = step->state;
  const ert_conv_geometry *g = &s->plan.g;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  const int64_t filter = t->group * g->filters + block * 16;
  const size_t left = s->plan.weights - tap;
  float *y = (float *)step->out[0]->data + ert_position(&s->y, t->image, t->depth, t->row, t->column);
  const float *r = NULL;
  if (residual) r = (const float *)residual->data + ert_position(&s->residual, t->image, t->depth, t->row, t->column);
  const ert_direct d = {
      .x = band,
      .x_row = g->stride[1] * s->row,
      .taps = s->taps + tap,
      .n_taps = left < s->pass ? left : s->pass,
      .w = (const float *)step->in[1]->data + t->group * s->w.group + block * s->w.block + tap * 16,
      .bias = bias ? (const float *)bias->data + t->group * s->bias_group + block * 16 : NULL,
      .y = y + filter * s->y.channel,
      .residual = r ? r + filter * s->residual.channel : NULL,
      .y_filter = s->y.channel,
      .y_row = s->y.row,
      .residual_filter = s->residual.channel,
      .residual_row = s->residual.row,
      .filters = (size_t)ert_min64(16, g->filters - block * 16),
      .rows = (size_t)t->rows,
      .pixels = (size_t)t->columns,
      .lo = s->finish.lo,
      .hi = s->finish.hi,
      .sums = sums,
      .begun = tap > 0,
      .unfinished = left > s->pass,
  };
  s->simd->direct(&d);
  if (!d.unfinished) ert_finish_stored(&s->finish, s->simd, d.y, d.filters, d.y_filter, d.rows, d.y_row, d.pixels);
}

static void run_task(const ert_step *step, const ert_conv_task *t, const float *band, float *sums) {
  const direct_state *s = step->state;
  const int64_t end = t->block + t->blocks;
  for (int64_t first = t->block; first < end; first += s->at_a_time) {
    const int64_t last = ert_min64(first + s->at_a_time, end);
    size_t tap = 0;
    do {
      for (int64_t block = first; block < last; block++)
        run_block(step, t, band, block, tap, s->sums > 0 ? sums + (block - first) * s->sums : NULL);
      tap += s->pass;
    } while (tap < s->plan.weights);
  }
}

static void direct_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const direct_state *s = step->state;
  const float *x = step->in[0]->data;
  float *band = scratch, *sums = scratch;
  int64_t gathered = -1;
  if (s->sums > 0) sums += s->sums_at;
  for (int64_t i = begin; i < end; i++) {
    const ert_conv_task t = ert_conv_task_at(&s->plan, i);
    if (s->in_place) {
      const int64_t channel = t.group * s->plan.g.channels;
      run_task(step, &t, x + ert_position(&s->x, t.image, 0, 0, t.column) + channel * s->x.channel, sums);
      continue;
    }
    if (s->plan.gather && gathered != t.band) gather_band(s, &t, x, band);
    gathered = t.band;
    run_task(step, &t, band, sums);
  }
}

extern const ert_kernel ert_kernel_conv_direct;
const ert_kernel ert_kernel_conv_direct = {
    .name = "conv_direct", .prepare = direct_prepare, .run = direct_run, .views = true};
