/* How a sparse convolution is cut into strips of output rows, and which lines of inputs a strip reads. */
#include "kernels/sparse_geometry.h"

#include <inttypes.h>

#include "kernels/partition.h"

enum {
  TILE_FLOATS = 10 * 1024,         /* the inputs of a tile nearly stay in the first-level cache, */
  TAILED_FLOATS = 12 * 1024,       /* lines with tails longer */
  CACHE_LINE = 64 / sizeof(float), /* floats */
  ROW_FLOATS = 64,                 /* rows are not cut for the sake of more rows below this */
  MOST_SHIFTS = 16,
};

static int64_t round_up(int64_t n, int64_t unit) { return ert_ceil_divide(n, unit) * unit; }

/* The different phases, ascending, in which the taps of dimension d lie, and for each the last of its positions. False if
 * there are more than `most`. */
static bool find_phases(const ert_conv_geometry *g, int d, int64_t most, int64_t *phases, int64_t *last,
                        int64_t *count) {
  int64_t n = 0;
  for (int64_t k = 0; k < g->kernel[d]; k++) {
    const int64_t phase = k * g->dilation[d] % g->stride[d], position = k * g->dilation[d] / g->stride[d];
    int64_t i = 0;
    while (i < n && phases[i] < phase) i++;
    if (i == n || phases[i] != phase) {
      if (n == most) return false;
      for (int64_t j = n; j > i; j--) phases[j] = phases[j - 1], last[j] = last[j - 1];
      phases[i] = phase;
      n++;
    }
    last[i] = position;
  }
  *count = n;
  return true;
}

/* A line for each tap. */
static bool list_taps(ert_sparse_geometry *s) {
  const ert_conv_geometry *g = &s->g;
  if (ert_volume(g->kernel) > ERT_SPARSE_LINES) return false;
  s->lines = 0;
  for (int64_t d = 0; d < g->kernel[0]; d++)
    for (int64_t r = 0; r < g->kernel[1]; r++)
      for (int64_t c = 0; c < g->kernel[2]; c++)
        s->at[s->lines++] = (ert_sparse_line){d * g->dilation[0], r * g->dilation[1], c * g->dilation[2]};
  return true;
}

/* Lists the lines of a channel; false if they are too many. */
static bool list_lines(ert_sparse_geometry *s) {
  const ert_conv_geometry *g = &s->g;
  if (s->spread) return list_taps(s);
  int64_t rows[ERT_SPARSE_LINES], last[ERT_SPARSE_LINES], columns[ERT_SPARSE_LINES], unused[ERT_SPARSE_LINES];
  int64_t n_rows, n_columns;
  if (!find_phases(g, 1, ERT_SPARSE_LINES, rows, last, &n_rows)) return false;
  if (!find_phases(g, 2, ERT_SPARSE_LINES, columns, unused, &n_columns)) return false;
  s->lines = 0;
  for (int64_t d = 0; d < g->kernel[0]; d++)
    for (int64_t r = 0; r < n_rows; r++)
      for (int64_t c = 0; c < n_columns; c++)
        for (int64_t i = 0; i < s->rows + last[r]; i++) {
          if (s->lines == ERT_SPARSE_LINES) return false;
          s->at[s->lines++] = (ert_sparse_line){d * g->dilation[0], i * g->stride[1] + rows[r], columns[c]};
        }
  return true;
}

static void find_groups(ert_sparse_geometry *s) {
  const ert_conv_geometry *g = &s->g;
  s->reach = 0;
  s->groups = 1;
  s->shift = false;
  if (s->spread) return;
  s->reach = g->reach[2] / g->stride[2];
  for (int64_t k = 1; k < g->kernel[2]; k++)
    s->groups += k * g->dilation[2] / g->stride[2] != (k - 1) * g->dilation[2] / g->stride[2];
  s->shift = s->groups > 1 && s->groups <= MOST_SHIFTS && s->groups == s->reach + 1;
}

void ert_sparse_columns(const ert_sparse_geometry *s, ptrdiff_t *columns) {
  const ert_conv_geometry *g = &s->g;
  int64_t n = 0;
  for (int64_t k = s->spread ? 0 : g->kernel[2] - 1; k >= 0; k--) {
    const int64_t column = k * g->dilation[2] / g->stride[2];
    if (n == 0 || columns[n - 1] != column) columns[n++] = column;
  }
}

/* Floats that whole rows of outputs need of a line: what lies behind the last column may be the zeros that the next line
 * begins with. */
static int64_t whole_line(const ert_sparse_geometry *s) {
  const ert_conv_geometry *g = &s->g;
  const int64_t most = g->out[2] + s->reach;
  int64_t line = g->out[2], zeros = most;
  for (int64_t i = 0; i < s->lines; i++) {
    const int64_t before = g->pad[2] - s->at[i].column; /* columns of padding */
    zeros = ert_min64(zeros, before > 0 ? ert_ceil_divide(before, g->stride[2]) : 0);
    const int64_t last = g->in[2] - 1 + before;
    if (last >= 0) line = ert_max64(line, ert_min64(last / g->stride[2] + 1, most));
  }
  return ert_max64(line, most - zeros);
}

/* Segments, lines and chunks of rows. */
static void cut_rows(ert_sparse_geometry *s, ert_sparse_limits limits) {
  const int64_t behind = s->shift ? s->reach : 0, width = s->g.out[2];
  const int64_t limit = ert_max64(limits.most / s->rows, ert_min64(limits.most, ROW_FLOATS));
  int64_t line = whole_line(s);
  s->unit = 1;
  s->segments = 1;
  if (round_up(ert_min64(line, width + behind), limits.vector) > limit) {
    s->segments = ert_ceil_divide(width, round_up(limit - limits.vector + 1, limits.vector) - behind);
    line = ert_ceil_divide(width, s->segments) + s->reach;
  }
  s->line = round_up(line, limits.vector);
  const int64_t narrow = round_up(line, limits.unit);
  const bool narrower = s->rows > 1 && narrow < s->line && narrow * s->rows <= limits.unit_most;
  if (narrower) s->line = narrow;
  s->chunk = ert_clamp64(limits.most / s->line, 1, s->rows);
  s->chunk = ert_ceil_divide(s->rows, ert_ceil_divide(s->rows, s->chunk));
}

/* All outputs are one row, which is cut so that a tile fits the cache; between whole vectors if no image ends within one. */
static void cut_flat(ert_sparse_geometry *s, ert_sparse_limits limits) {
  const int64_t channels = ert_clamp64(s->g.channels, 1, s->tile), pixels = s->g.out[2];
  const int64_t wanted = ert_clamp64(TILE_FLOATS / (channels * s->lines), limits.vector, limits.most);
  const int64_t rest = pixels % limits.vector;
  const int64_t most_tailed = ert_min64(limits.tail_most + ERT_SPARSE_TAIL, TAILED_FLOATS / (channels * s->lines));
  s->tailed =
      !s->in_place && s->deep == 1 && rest > 0 && rest <= ERT_SPARSE_TAIL && pixels > rest && pixels <= most_tailed;
  if (s->tailed) {
    s->segments = s->chunk = 1;
    s->unit = pixels;
    s->line = pixels - rest;
    return;
  }
  const bool halves = !s->in_place && wanted <= limits.unit_most && rest != 0;
  s->unit = halves ? limits.unit : limits.vector;
  const int64_t units = ert_ceil_divide(pixels, s->unit);
  s->segments = ert_ceil_divide(units, wanted / s->unit);
  s->line = ert_ceil_divide(units, s->segments) * s->unit;
  s->chunk = 1;
}

/* Whether the pixels of each channel are whole lines of the cache, of which vectors never read another view's or what is
 * behind x, and the channels are spread over the sets of the first-level cache. If filters are many it pays to copy them
 * closer together. */
static bool read_in_place(const ert_sparse_geometry *s, const ert_tensor *x) {
  const ert_conv_geometry *g = &s->unflattened;
  const ert_strides strides = ert_strides_of(x);
  for (int d = 0; d < 3; d++)
    if (g->stride[d] != 1 || g->pad[d] != 0 || g->in[d] != g->out[d]) return false;
  if (s->lines > 1 || g->filters > g->channels) return false;
  return ert_positions_joined(&strides, g->in) && (uintptr_t)x->data % 64 == 0 && ert_volume(g->in) % CACHE_LINE == 0 &&
         strides.image % CACHE_LINE == 0 && strides.channel % CACHE_LINE == 0 && strides.channel / CACHE_LINE % 8 != 0;
}

edgert_status ert_sparse_together(const ert_prepare *p, int64_t filters, int64_t channels, int64_t tile,
                                  int64_t *together, int64_t *deep) {
  const ert_attribute *of = ert_attribute_find(p, "together");
  const int64_t *found;
  const bool two = of && of->n_ints == 2;
  ERT_TRY(ert_ints(p, "together", two ? 2 : 1, 1, 4, &found));
  *together = found[0];
  *deep = two ? found[1] : 1;
  if ((*together != 1 && *together != 4) || filters % *together != 0)
    return ert_reject(p, "attribute 'together'", "1, or 4 that the filters of a group are a multiple of", "%" PRId64,
                      *together);
  if (two && (*together != 1 || *deep != 4 || channels % 4 != 0 || tile % 4 != 0))
    return ert_reject(p, "attribute 'together'", "1 and 4, that the channels of a group and of a tile are multiples of",
                      "%" PRId64 " and %" PRId64 " of %" PRId64 " and %" PRId64, *together, *deep, channels, tile);
  return EDGERT_OK;
}

edgert_status ert_sparse_geometry_read(const ert_prepare *p, bool joined, ert_sparse_geometry *out) {
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  const int64_t *kernel;
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  ERT_TRY(ert_ints(p, "kernel", x->rank - 2u, 1, ERT_SPARSE_KERNEL, &kernel));
  ert_conv_geometry *g = &out->g;
  ERT_TRY(ert_conv_geometry_read(p, x, y, kernel, false, g));
  ERT_TRY(ert_int(p, "channels", 1, ERT_SPARSE_WIDE_LINES, &out->tile));
  ERT_TRY(ert_int(p, "rows", 0, ERT_SPARSE_LINES, &out->rows));
  ERT_TRY(ert_sparse_together(p, g->filters, g->channels, out->tile, &out->together, &out->deep));
  const ert_sparse_limits *limits = &p->simd->sparse_limits[out->together == 4];
  out->unflattened = *g;
  const bool pointwise = ert_volume(g->kernel) == 1;
  if (pointwise && out->rows != 1)
    return ert_reject(p, "attribute 'rows'", "1 for a kernel of one tap", "%" PRId64, out->rows);
  out->spread = pointwise || out->rows == 0;
  if (out->spread) out->rows = 1;
  if (!list_lines(out) || out->tile * out->lines > ERT_SPARSE_WIDE_LINES)
    return ert_reject(p, "lines of a tile", "at most 2048, and 256 of a channel", "more");
  const bool bytes = p->step->in[2]->dtype != EDGERT_U16, gaps = bytes && out->tile * out->lines > ERT_SPARSE_LINES;
  out->indexed = gaps ? ERT_SPARSE_GAP : bytes ? ERT_SPARSE_LINE : ERT_SPARSE_WIDE_LINE;
  out->behind = gaps ? 0 : bytes ? ERT_SPARSE_LINES : ERT_SPARSE_WIDE_LINES;
  out->tiles = ert_max64(ert_ceil_divide(g->channels, out->tile), 1);
  out->flat = out->spread && joined;
  out->in_place = out->flat && out->indexed == ERT_SPARSE_LINE && x->data && read_in_place(out, x);
  if (out->flat) {
    g->out[2] = ert_volume(g->out);
    g->out[0] = g->out[1] = 1;
  }
  find_groups(out);
  if (g->out[2] == 0) return EDGERT_OK; /* nothing to cut */
  if (out->flat)
    cut_flat(out, *limits);
  else
    cut_rows(out, *limits);
  out->strips = ert_ceil_divide(g->out[1], out->rows);
  const int64_t width = out->unflattened.out[2];
  out->runs = out->lines * (out->flat ? (out->line - 1) / width + 2 : 1);
  if (out->tailed) out->runs += out->lines * ((ERT_SPARSE_TAIL - 1) / width + 2);
  return EDGERT_OK;
}

ert_sparse_strip ert_sparse_strip_at(const ert_sparse_geometry *s, int64_t depth, int64_t i) {
  const int64_t strip = i / s->segments, segment = i % s->segments, units = ert_ceil_divide(s->g.out[2], s->unit);
  const int64_t row = strip * s->rows, column = ert_cut_at(units, s->segments, segment) * s->unit;
  const int64_t end = ert_min64(ert_cut_at(units, s->segments, segment + 1) * s->unit, s->g.out[2]);
  return (ert_sparse_strip){depth, row, ert_min64(s->rows, s->g.out[1] - row), column, end - column};
}

/* `n` floats of a line, the first one column `column` of an input row, the next ones a stride further each; with `more`
 * zeros behind them. */
static ert_sparse_run run_of(const ert_conv_geometry *g, const ert_strides *x, int64_t depth, int64_t row,
                             int64_t column, int64_t n, int64_t more) {
  int64_t begin = 0, end = 0;
  if (depth >= 0 && depth < g->in[0] && row >= 0 && row < g->in[1])
    ert_taps_inside(column, g->stride[2], n, g->in[2], &begin, &end);
  return (ert_sparse_run){
      .from = begin < end ? ert_position(x, 0, depth, row, column + begin * g->stride[2]) : 0,
      .before = (size_t)begin,
      .count = (size_t)(end - begin),
      .after = (size_t)(n + more - end),
  };
}

static bool follows(const ert_sparse_run *a, const ert_sparse_run *b, int64_t step) {
  return a->after == 0 && b->before == 0 && b->from == a->from + (ptrdiff_t)a->count * step;
}

/* What the outputs of a flat strip read of a line, row by row; rows that follow one another are one run. */
static size_t flat_runs(const ert_sparse_geometry *s, const ert_sparse_line *line, const ert_strides *x,
                        const ert_sparse_strip *strip, int64_t floats, ert_sparse_run *runs) {
  const ert_conv_geometry *g = &s->unflattened;
  size_t n = 0;
  for (int64_t i = 0, count; i < strip->columns; i += count) {
    const int64_t at = strip->column + i, column = at % g->out[2], row = at / g->out[2] % g->out[1];
    const int64_t depth = at / g->out[2] / g->out[1];
    count = ert_min64(g->out[2] - column, strip->columns - i);
    const ert_sparse_run run =
        run_of(g, x, depth * g->stride[0] - g->pad[0] + line->depth, row * g->stride[1] - g->pad[1] + line->row,
               column * g->stride[2] - g->pad[2] + line->column, count, 0);
    if (n > 0 && follows(&runs[n - 1], &run, g->stride[2]))
      runs[n - 1].count += run.count, runs[n - 1].after = run.after;
    else
      runs[n++] = run;
  }
  runs[n - 1].after += (size_t)(floats - strip->columns);
  return n;
}

size_t ert_sparse_runs(const ert_sparse_geometry *s, const ert_strides *x, const ert_sparse_strip *strip, int64_t line,
                       ert_sparse_run *runs) {
  if (s->flat) {
    size_t n = 0;
    for (int64_t i = 0; i < s->lines; i++) n += flat_runs(s, &s->at[i], x, strip, line, runs + n);
    return n;
  }
  const ert_conv_geometry *g = &s->g;
  const int64_t depth = strip->depth * g->stride[0] - g->pad[0], row = strip->row * g->stride[1] - g->pad[1];
  const int64_t column = strip->column * g->stride[2] - g->pad[2];
  const int64_t needed = ert_min64(strip->columns + s->reach, line);
  for (int64_t i = 0; i < s->lines; i++)
    runs[i] = run_of(g, x, depth + s->at[i].depth, row + s->at[i].row, column + s->at[i].column, needed, line - needed);
  return (size_t)s->lines;
}
