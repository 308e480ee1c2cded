/* How a convolution is cut into tasks, and where the inputs of each output lie. */
#include "kernels/conv_plan.h"

#include "base/checked.h"
#include "kernels/partition.h"
#include "kernels/weights.h"

enum {
  BAND_FLOATS = 128 * 1024, /* inputs of a band stay in the second-level cache beside the weights of a few blocks */
  LEAST_COLUMNS = 56,       /* of a band that is part of a row */
};

/* Reads the kernel's extents that weights of lines do not tell. */
static edgert_status expect_lines(const ert_prepare *p, ert_conv_geometry *g) {
  const ert_tensor *x = p->step->in[0];
  const int64_t *kernel, most = (int64_t)1 << 40;
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  ERT_TRY(ert_ints(p, "kernel", x->rank - 2u, 1, INT32_MAX, &kernel));
  ERT_TRY(ert_conv_geometry_read(p, x, p->step->out[0], kernel, false, g));
  if (g->channels > most / (g->reach[2] + 1)) return ert_reject(p, "input channels and taps", "fewer", "more");
  return EDGERT_OK;
}

edgert_status ert_conv_expect_packed(const ert_prepare *p, bool lines, ert_conv_geometry *g) {
  ERT_TRY(ert_expect_operands(p, 2, 4, 1, 1));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *w = step->in[1], *y = step->out[0];
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  ERT_TRY(ert_expect_weights(p, w));
  if (w->rank != x->rank + !lines)
    return ert_reject(p, "rank of the weights", lines ? "the input's" : "one more than the input's", "%d", w->rank);
  ERT_TRY(ert_expect_activations(p, x));
  ERT_TRY(ert_expect_activations(p, y));
  ERT_TRY(lines ? expect_lines(p, g) : ert_conv_geometry_read(p, x, y, w->shape + 3, false, g));
  int64_t shape[ERT_MAX_RANK] = {g->groups, g->filters, lines ? ert_conv_line(g) : g->channels};
  for (int i = 3; i < w->rank; i++) shape[i] = g->kernel[i - x->rank + 2];
  ERT_TRY(ert_expect_shape(p, w, w->rank, shape));
  ERT_TRY(ert_expect_whole(p, w, 3));
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_layout(p, bias, ERT_LAYOUT_BLOCK16));
    ERT_TRY(ert_expect_shape(p, bias, 2, shape));
  }
  return residual ? ert_expect_same_type(p, y, residual) : EDGERT_OK;
}

/* Output positions of kernel 1, stride 1 and no padding need no rows if they are joined: the image is one row. */
static void flatten(ert_conv_geometry *g) {
  for (int d = 0; d < 3; d++)
    if (g->kernel[d] != 1 || g->stride[d] != 1 || g->in[d] != g->out[d] || g->pad[d] != 0) return;
  g->in[2] = g->out[2] = ert_volume(g->in);
  g->in[0] = g->out[0] = g->in[1] = g->out[1] = 1;
}

/* No input channels: nothing is read, the geometry of the inputs does not matter. */
static void without_inputs(ert_conv_geometry *g) {
  for (int d = 0; d < 3; d++) {
    g->in[d] = g->out[d];
    g->kernel[d] = g->stride[d] = 1;
    g->pad[d] = g->reach[d] = 0;
  }
}

static bool is_padded(const ert_conv_geometry *g) {
  for (int d = 0; d < 3; d++)
    if (g->pad[d] > 0 || (g->out[d] - 1) * g->stride[d] + g->reach[d] >= g->in[d]) return true;
  return false;
}

/* Input extent that `n` neighbouring outputs reach. */
static int64_t reach_of(const ert_conv_geometry *g, int d, int64_t n) {
  return (n - 1) * g->stride[d] + g->reach[d] + 1;
}

/* Floats of the inputs of a band; -1 if they overflow. */
static int64_t band_floats(const ert_conv_geometry *g, int64_t rows, int64_t columns) {
  size_t size = (size_t)g->channels;
  if (!ert_multiply(size, (size_t)g->kernel[0], &size) || !ert_multiply(size, (size_t)reach_of(g, 1, rows), &size) ||
      !ert_multiply(size, (size_t)reach_of(g, 2, columns), &size) || size > INT64_MAX / 64)
    return -1;
  return (int64_t)size;
}

/* The most neighbours whose inputs fit a band, when one needs `one` floats and each further one `more`. */
static int64_t fitting(int64_t one, int64_t more) {
  return one >= BAND_FLOATS ? 1 : 1 + (BAND_FLOATS - one) / ert_max64(more, 1);
}

/* Bands small enough for the cache: of whole rows, or of parts of one row. */
static bool cut_for_cache(ert_conv_plan *plan) {
  const ert_conv_geometry *g = &plan->g;
  const int64_t row = band_floats(g, 1, g->out[2]), two_rows = band_floats(g, 2, g->out[2]);
  if (row < 0 || two_rows < 0) return false;
  if (row <= BAND_FLOATS) {
    plan->row_bands = ert_ceil_divide(g->out[1], fitting(row, two_rows - row));
    return true;
  }
  const int64_t one = band_floats(g, 1, 1);
  const int64_t columns = ert_max64(fitting(one, band_floats(g, 1, 2) - one), LEAST_COLUMNS);
  plan->row_bands = g->out[1];
  plan->column_bands = ert_ceil_divide(g->out[2], columns);
  return true;
}

/* More bands or runs of output channels until every worker gets as much: whichever divides more evenly, or else makes the
 * smaller operand be read several times. */
static void cut_for_workers(ert_conv_plan *plan, int64_t workers) {
  const ert_conv_geometry *g = &plan->g;
  const int64_t images = g->batch * g->groups * g->out[0], units = ert_ceil_divide(plan->blocks, plan->unit);
  const double inputs = (double)g->channels * (double)ert_volume(g->in);
  const double weights = (double)plan->weights * (double)plan->blocks * 16;
  const double products = weights * (double)ert_volume(g->out) * (double)(g->groups * g->batch);
  const int64_t bands = plan->row_bands * plan->column_bands, pieces = ert_pieces(images * bands, products, workers);
  const int64_t extent = g->out[1] > 1 ? g->out[1] : g->out[2];
  const double by_runs = ert_unevenness(units, pieces), by_bands = ert_unevenness(extent, pieces);
  if (pieces == 1) return;
  if (by_runs < by_bands - 0.05 || (weights > inputs && by_runs < by_bands + 0.05)) {
    plan->runs = ert_min64(pieces, units);
  } else if (g->out[1] > 1) {
    plan->row_bands = ert_min64(ert_ceil_divide(plan->row_bands, pieces) * pieces, g->out[1]);
  } else {
    plan->column_bands = ert_min64(ert_ceil_divide(plan->column_bands, pieces) * pieces, g->out[2]);
  }
}

bool ert_conv_plan_make(const ert_conv_geometry *g, const ert_strides *x, bool joined, uint32_t workers,
                        ert_conv_inputs inputs, ert_conv_plan *out) {
  const bool blocked = x->blocked;
  ert_conv_plan plan = {.g = *g, .row_bands = 1, .column_bands = 1, .runs = 1, .blocked = blocked};
  if (g->channels == 0) without_inputs(&plan.g);
  if (joined) flatten(&plan.g);
  g = &plan.g;
  plan.gather = g->channels > 0 && (inputs != ERT_CONV_IN_PLACE || !blocked || is_padded(g));
  plan.blocks = ert_ceil_divide(g->filters, 16);
  plan.unit = 2;
  plan.lanes = blocked ? 16 : ert_min64(g->channels, 16);
  const int64_t most_before = blocked && g->groups > 1 && g->channels % 16 != 0 ? 15 : 0; /* lanes of another group */
  plan.channel_blocks = ert_ceil_divide(g->channels + most_before, 16);
  plan.weights = (size_t)(g->channels * ert_volume(g->kernel));
  if (inputs == ERT_CONV_LINES && g->channels > 0) {
    plan.line = ert_conv_line(g);
    plan.lanes = g->channels;
    plan.channel_blocks = 1;
    plan.weights = (size_t)(plan.line * g->kernel[0] * g->kernel[1]);
  }
  if (!cut_for_cache(&plan)) return false;
  cut_for_workers(&plan, workers);
  plan.rows = ert_ceil_divide(g->out[1], plan.row_bands);
  plan.columns = ert_ceil_divide(g->out[2], plan.column_bands);
  plan.plane = x->plane, plan.row = x->row, plan.block = x->channel;
  if (plan.gather) {
    const int64_t size = band_floats(g, plan.rows, plan.columns);
    if (size < 0) return false;
    plan.band_size = size / g->channels * plan.channel_blocks * plan.lanes;
    plan.in_rows = reach_of(g, 1, plan.rows);
    plan.in_columns = reach_of(g, 2, plan.columns);
    plan.block = plan.in_columns * plan.lanes;
    plan.row = plan.block * plan.channel_blocks;
    if (plan.line > 0) {
      plan.row = plan.block / 16 * 16 + 16;
      plan.band_size = plan.row * plan.in_rows * g->kernel[0];
      plan.block = 16;
    }
    plan.plane = plan.row * plan.in_rows;
  }
  plan.x_pixel = g->stride[2] * plan.lanes;
  plan.x_row = g->stride[1] * plan.row;
  *out = plan;
  return true;
}

ert_conv_task ert_conv_task_at(const ert_conv_plan *plan, int64_t task) {
  const ert_conv_geometry *g = &plan->g;
  ert_conv_task t = {.band = task / plan->runs};
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

/* A list of spans in the making. */
typedef struct span_list {
  ert_span *spans; /* or NULL */
  size_t n;
  int64_t end; /* rows of weights up to the end of the last span */
  int64_t pass;
} span_list;

static void append(span_list *list, int64_t offset, int64_t count, int64_t skip) {
  if (list->spans) list->spans[list->n] = (ert_span){offset, (size_t)count, (size_t)skip};
  list->n++;
  list->end += skip + count;
}

/* Appends the inputs that meet the weights from `row` on, those before having been met or skipped. */
static void append_inputs(span_list *list, int64_t row, int64_t offset, int64_t count) {
  for (int64_t chain = (list->end / ERT_CHAIN + 1) * ERT_CHAIN; chain <= row; chain += ERT_CHAIN)
    append(list, offset, 0, chain - list->end);
  for (int64_t end = row + count, some; row < end; row += some, offset += some) {
    some = ert_min64(end - row, list->pass - row % list->pass);
    append(list, offset, some, row - list->end);
  }
}

size_t ert_conv_plan_spans(const ert_conv_plan *plan, const ert_conv_part *const parts[3], int64_t lane, int64_t pass,
                           ert_span *spans) {
  const ert_conv_geometry *g = &plan->g;
  const int64_t plane = plan->plane * (plan->gather ? 1 : g->dilation[0]); /* between taps */
  const int64_t channels = plan->line ? plan->line : g->channels, taps = plan->line ? 1 : g->kernel[2];
  const int64_t first = plan->line ? 0 : parts[2]->first, last = plan->line ? 1 : parts[2]->last;
  span_list list = {.spans = spans, .pass = pass};
  for (int64_t c = 0; c < channels; c += 16) {
    const int64_t count = ert_min64(16, channels - c);
    const int64_t here = ert_min64(count, 16 - lane);                             /* the others are in the next block */
    const bool joined = g->dilation[2] == 1 && count == plan->lanes && lane == 0; /* a row of taps is one span */
    for (int64_t d = parts[0]->first; d < parts[0]->last; d++)
      for (int64_t h = parts[1]->first; h < parts[1]->last; h++)
        for (int64_t w = first; w < last; w += joined ? last - first : 1) {
          const int64_t at = d * plane + h * g->dilation[1] * plan->row + w * g->dilation[2] * plan->lanes;
          const int64_t tap = (d * g->kernel[1] + h) * taps + w, block = (lane + c) / 16 * plan->block + at;
          const int64_t row = c * g->kernel[0] * g->kernel[1] * taps + tap * count;
          append_inputs(&list, row, block + lane, joined ? here * (last - first) : here);
          if (here < count) append_inputs(&list, list.end, block + plan->block, count - here);
        }
  }
  return list.n;
}
