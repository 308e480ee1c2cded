/* pool: largest, average or Lp value of windows over one to three dimensions; fast for float32. */
#include <math.h>

#include "kernels/pool_window.h"
#include "kernels/simd/simd.h"

typedef struct pool_state {
  ert_pool_shape shape;
  const ert_simd *simd;
  ert_pool_rows rows; /* NULL: fast */
  int64_t planes;     /* of an image, or blocks of them if those are fast */
  int64_t units;      /* rows of outputs of all planes */
  int64_t inside[2];  /* fast blocks: outputs of a row whose windows lie inside the input */
  int64_t columns;    /* fast planar: outputs of a row made at a time */
  float divisors[];   /* fast planar averages: of each column, at least 1 */
} pool_state;

enum {
  LANES = 16,
  PADDED_FLOATS = 64 * 1024, /* fast planar: of a padded row that some windows cover */
};

static edgert_status read_axes(const ert_prepare *p, ert_pool_shape *s) {
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  const uint32_t n = (uint32_t)x->rank - 2;
  const int64_t *kernel, *strides, *pads, *dilations;
  int64_t ceil_mode;
  ERT_TRY(ert_ints(p, "kernel", n, 1, INT32_MAX, &kernel));
  ERT_TRY(ert_ints(p, "strides", n, 1, INT32_MAX, &strides));
  ERT_TRY(ert_ints(p, "dilations", n, 1, INT32_MAX, &dilations));
  ERT_TRY(ert_ints(p, "pads", 2 * n, 0, INT32_MAX, &pads));
  ERT_TRY(ert_int_or(p, "ceil_mode", 0, 1, 0, &ceil_mode));
  for (int i = 0; i < 3; i++) s->axis[i] = (ert_pool_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  for (uint32_t i = 0; i < n; i++) {
    ert_pool_axis *a = &s->axis[3 - n + i];
    *a = (ert_pool_axis){.in = x->shape[2 + i],
                         .out = y->shape[2 + i],
                         .kernel = kernel[i],
                         .stride = strides[i],
                         .dilation = dilations[i],
                         .begin = pads[i],
                         .end = pads[n + i]};
    if (a->in > INT32_MAX) return ert_reject(p, "spatial extent", "below 2^31", "%lld", (long long)a->in);
    const int64_t room = a->in + a->begin + a->end - ((a->kernel - 1) * a->dilation + 1);
    if (room < 0) return ert_reject(p, "window", "one no larger than the padded input", "%lld", (long long)a->kernel);
    int64_t out = room / a->stride + 1;
    if (ceil_mode && room % a->stride && out * a->stride < a->in + a->begin) out++;
    if (a->out != out)
      return ert_reject(p, "spatial extent of the output", "that of the windows", "%lld instead of %lld",
                        (long long)a->out, (long long)out);
  }
  return EDGERT_OK;
}

static edgert_status check_operands(const ert_prepare *p) {
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *y = step->out[0];
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank", "3 to 5", "%d", x->rank);
  if (x->layout == ERT_LAYOUT_BLOCK16) {
    ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
    ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_BLOCK16));
    ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  } else {
    ERT_TRY(ert_expect_planar(p));
  }
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  int64_t shape[ERT_MAX_RANK] = {x->shape[0], x->shape[1]};
  for (int i = 2; i < x->rank && i < y->rank; i++) shape[i] = y->shape[i];
  ERT_TRY(ert_expect_shape(p, y, x->rank, shape));
  if (step->n_out < 2) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, step->out[1], EDGERT_I64));
  return ert_expect_shape(p, step->out[1], y->rank, y->shape);
}

/* Whether windows can be taken by vectors, and what that needs. The answer is the same for parts of the outputs: the fast way
 * rounds averages otherwise. */
static bool plan_fast(ert_prepare *p, pool_state *s) {
  const ert_pool_axis *w = &s->shape.axis[2];
  if (s->shape.kind == ERT_POOL_LP || p->step->in[0]->dtype != EDGERT_F32 || p->step->n_out > 1) return false;
  const int64_t window = (w->kernel - 1) * w->dilation + 1;
  if (s->shape.x.blocked) {
    int64_t last = w->in + w->begin - window; /* where the last window inside starts, from the padding's start */
    s->inside[0] = ert_min64(ert_pool_steps(w->begin, w->stride), w->out);
    s->inside[1] = last < 0 ? s->inside[0] : ert_clamp64(last / w->stride + 1, s->inside[0], w->out);
    return true;
  }
  if (window > PADDED_FLOATS) return false;
  s->columns = ert_min64((PADDED_FLOATS - window) / w->stride + 1, w->out);
  for (int64_t o = 0; o < w->out; o++) s->divisors[o] = (float)ert_max64(ert_pool_span_at(&s->shape, 2, o).divisor, 1);
  p->step->scratch_bytes = (size_t)((s->columns - 1) * w->stride + window + ERT_SLIDE_SLACK) * sizeof(float);
  return true;
}

static edgert_status prepare(ert_prepare *p) {
  static const char *const kinds[] = {"max", "average", "lp", NULL};
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 2));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  int64_t include_pad, column_major;
  void *state;
  ERT_TRY(check_operands(p));
  ERT_TRY(ert_state(p, sizeof(pool_state) + (y->elements ? (size_t)y->shape[y->rank - 1] * sizeof(float) : 0), &state));
  pool_state *s = state;
  ert_pool_shape *shape = &s->shape;
  ERT_TRY(ert_choice(p, "kind", kinds, &shape->kind));
  ERT_TRY(ert_int_or(p, "count_include_pad", 0, 1, 0, &include_pad));
  ERT_TRY(ert_int_or(p, "column_major", 0, 1, 0, &column_major));
  ERT_TRY(ert_int_or(p, "p", 1, INT32_MAX, 2, &shape->p));
  ERT_TRY(read_axes(p, shape));
  if (shape->kind != ERT_POOL_MAX) ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  if (shape->kind != ERT_POOL_MAX && p->step->n_out > 1)
    return ert_reject(p, "number of outputs", "1 unless the kind is max", "2");
  s->simd = p->simd;
  s->rows = shape->kind == ERT_POOL_MAX ? ert_pool_max_rows(x->dtype) : ert_pool_sum_rows;
  if (!s->rows) return ert_reject(p, "element type", "f32, i8 or u8", "%d", x->dtype);
  shape->include_pad = include_pad == 1;
  shape->column_major = column_major == 1;
  if (y->elements == 0) return p->step->tasks = 0, EDGERT_OK;

  shape->channels = x->shape[1];
  shape->pixels = x->elements / x->shape[0] / x->shape[1];
  shape->x = ert_strides_of(x);
  shape->y = ert_strides_of(y);
  if (p->step->n_out > 1) shape->indices = ert_strides_of(p->step->out[1]);
  int64_t width = 1;
  s->planes = shape->channels;
  if (plan_fast(p, s)) {
    s->rows = NULL;
    if (shape->x.blocked) s->planes = (shape->channels + LANES - 1) / LANES, width = LANES;
  }
  s->units = x->shape[0] * s->planes * shape->axis[0].out * shape->axis[1].out;
  int64_t cost = y->elements / s->units;
  for (int i = 0; i < 3; i++)
    cost = ert_min64(cost * ert_min64(shape->axis[i].kernel, shape->axis[i].in + 1), INT32_MAX);
  p->step->tasks = ert_cut(s->units, (s->rows ? 4 : 1) * cost * width / LANES + 1, p->workers);
  return EDGERT_OK;
}

/* Outputs [from, to) of a row of blocks, whose windows have the same span but for their place. */
static void blocks_outputs(const pool_state *s, const ert_pool_span *spans, const float *x, float *y, int64_t from,
                           int64_t to) {
  const ert_pool_axis *a = s->shape.axis;
  const ert_strides *at = &s->shape.x;
  const double divisor = (double)spans[0].divisor * (double)spans[1].divisor * (double)spans[2].divisor;
  const bool average = s->shape.kind == ERT_POOL_AVERAGE;
  if (spans[0].count == 0 || spans[1].count == 0 || spans[2].count == 0) {
    for (int64_t i = from * LANES; i < to * LANES; i++) y[i] = average ? 0.0f : -INFINITY;
    return;
  }
  const ert_taps taps = {
      .count = {(size_t)spans[0].count, (size_t)spans[1].count, (size_t)spans[2].count},
      .stride = {(ptrdiff_t)(a[0].dilation * at->plane), (ptrdiff_t)(a[1].dilation * at->row),
                 (ptrdiff_t)(a[2].dilation * LANES)},
  };
  x += ert_position(at, 0, spans[0].first, spans[1].first, spans[2].first);
  s->simd->pool_blocks(average, &taps, x, (ptrdiff_t)(a[2].stride * LANES), (float)divisor, y + from * LANES,
                       (size_t)(to - from));
}

static void blocks_row(const pool_state *s, ert_pool_span *spans, const float *x, float *y) {
  const int64_t out = s->shape.axis[2].out;
  for (int64_t o = 0; o < out;) {
    const int64_t next = o == s->inside[0] && o < s->inside[1] ? s->inside[1] : o + 1;
    spans[2] = ert_pool_span_at(&s->shape, 2, o);
    blocks_outputs(s, spans, x, y, o, next);
    o = next;
  }
}

/* The rows that the windows of outputs [from, to) of a row see are folded into one padded row, along which they slide. */
static void planar_outputs(const pool_state *s, const ert_pool_span *spans, const float *x, float *y, int64_t from,
                           int64_t to, float *padded) {
  const ert_pool_axis *a = s->shape.axis, *w = &a[2];
  const bool average = s->shape.kind == ERT_POOL_AVERAGE;
  const int64_t first = from * w->stride - w->begin;
  const int64_t reach = (to - from - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
  const int64_t left = ert_clamp64(-first, 0, reach), right = ert_clamp64(w->in - first, left, reach);
  for (int64_t i = 0; i < reach; i++) padded[i] = average ? 0.0f : -INFINITY;
  for (int64_t i = 0; i < spans[0].count && spans[1].count > 0 && left < right; i++) {
    const int64_t depth = spans[0].first + i * a[0].dilation;
    const float *rows = x + ert_position(&s->shape.x, 0, depth, spans[1].first, first + left);
    s->simd->fold_columns(average ? ERT_FOLD_SUM : ERT_FOLD_MAX, rows, (ptrdiff_t)(a[1].dilation * s->shape.x.row),
                          (size_t)spans[1].count, padded + left, (size_t)(right - left));
  }
  s->simd->pool_slide(average, padded, (size_t)w->kernel, (ptrdiff_t)w->dilation, (size_t)w->stride, y + from,
                      (size_t)(to - from));
}

static void planar_row(const pool_state *s, const ert_pool_span *spans, const float *x, float *y, float *padded) {
  const ert_pool_axis *w = &s->shape.axis[2];
  for (int64_t o = 0; o < w->out; o += s->columns)
    planar_outputs(s, spans, x, y, o, ert_min64(o + s->columns, w->out), padded);
  if (s->shape.kind != ERT_POOL_AVERAGE) return;
  const float rows = (float)ert_max64(spans[0].divisor, 1) * (float)ert_max64(spans[1].divisor, 1);
  for (int64_t o = 0; o < w->out; o++) y[o] /= rows * s->divisors[o];
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const pool_state *s = step->state;
  const ert_pool_axis *a = s->shape.axis;
  const float *x = step->in[0]->data;
  float *y = step->out[0]->data;
  begin = ert_cut_at(s->units, step->tasks, begin);
  end = ert_cut_at(s->units, step->tasks, end);
  if (s->rows) {
    s->rows(&s->shape, x, y, step->n_out > 1 ? step->out[1]->data : NULL, begin, end);
    return;
  }
  const ert_strides *x_at = &s->shape.x, *y_at = &s->shape.y;
  int64_t h = begin % a[1].out, d = begin / a[1].out % a[0].out, channel = begin / a[1].out / a[0].out;
  int64_t image = channel / s->planes;
  channel %= s->planes;
  for (int64_t unit = begin; unit < end; unit++) {
    ert_pool_span spans[3] = {ert_pool_span_at(&s->shape, 0, d), ert_pool_span_at(&s->shape, 1, h), {0, 0, 0}};
    const float *from = x + image * x_at->image + channel * x_at->channel;
    float *to = y + channel * y_at->channel + ert_position(y_at, image, d, h, 0);
    if (x_at->blocked)
      blocks_row(s, spans, from, to);
    else
      planar_row(s, spans, from, to, scratch);
    if (++h == a[1].out) h = 0, d++;
    if (d == a[0].out) d = 0, channel++;
    if (channel == s->planes) channel = 0, image++;
  }
}

const ert_kernel ert_kernel_pool = {.name = "pool", .prepare = prepare, .run = run, .views = true};
