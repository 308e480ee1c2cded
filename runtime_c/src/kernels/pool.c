/* pool: largest, average or Lp value of windows over one to three dimensions; fast for float32, and for bytes in blocks. */
#include <math.h>
#include <string.h>

#include "kernels/pool_planar.h"

typedef struct pool_state {
  ert_pool_shape shape;
  const ert_simd *simd;
  bool bytes;           /* blocks of bytes, else of floats */
  ert_pool_rows rows;   /* NULL: by vectors */
  int64_t blocks;       /* of 16 channels of an image, or all channels if not blocked */
  int64_t units;        /* planar by vectors: those of the plan; else rows of outputs of all blocks */
  int64_t inside[2];    /* blocks: outputs of a row whose windows lie inside the input */
  ert_pool_plan planar; /* planar by vectors */
  float divisors[];     /* planar averages: of each column, at least 1 */
} pool_state;

enum { LANES = 16 };

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
    if (x->dtype != EDGERT_U8) ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
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

/* Whether windows can be taken by vectors, and what that needs. The answer is the same for parts of the outputs: the
 * other way rounds averages otherwise. */
static bool plan_vectors(ert_prepare *p, pool_state *s) {
  const ert_pool_axis *w = &s->shape.axis[2];
  const bool bytes = p->step->in[0]->dtype == EDGERT_U8 && s->shape.x.blocked;
  if (s->shape.kind == ERT_POOL_LP || (p->step->in[0]->dtype != EDGERT_F32 && !bytes) || p->step->n_out > 1)
    return false;
  if (!s->shape.x.blocked) {
    if (!ert_pool_planar_plan(&s->shape, p->step->in[0]->shape[0], &s->planar, s->divisors)) return false;
    p->step->scratch_bytes = s->planar.scratch_bytes;
    return true;
  }
  const int64_t last =
      w->in + w->begin - (w->kernel - 1) * w->dilation - 1; /* last window inside, from the padding's start */
  s->inside[0] = ert_min64(ert_pool_steps(w->begin, w->stride), w->out);
  s->inside[1] = last < 0 ? s->inside[0] : ert_clamp64(last / w->stride + 1, s->inside[0], w->out);
  return true;
}

static edgert_status prepare(ert_prepare *p) {
  static const char *const kinds[] = {"max", "average", "lp", NULL};
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 2));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  int64_t include_pad, column_major;
  void *state;
  ERT_TRY(check_operands(p));
  ERT_TRY(ert_state(
      p, sizeof(pool_state) + (size_t)ert_pool_divisors(y->elements ? y->shape[y->rank - 1] : 0) * sizeof(float),
      &state));
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
  if (y->elements == 0) return EDGERT_OK;

  shape->channels = x->shape[1];
  shape->pixels = x->elements / x->shape[0] / x->shape[1];
  shape->x = ert_strides_of(x);
  shape->y = ert_strides_of(y);
  if (p->step->n_out > 1) shape->indices = ert_strides_of(p->step->out[1]);
  int64_t width = 1;
  s->blocks = shape->channels;
  if (plan_vectors(p, s)) {
    s->rows = NULL;
    s->bytes = x->dtype == EDGERT_U8;
    if (shape->x.blocked) s->blocks = (shape->channels + LANES - 1) / LANES, width = LANES;
  }
  s->units = x->shape[0] * s->blocks * shape->axis[0].out * shape->axis[1].out;
  if (!s->rows && !shape->x.blocked) s->units = s->planar.units;
  int64_t cost = y->elements / s->units;
  for (int i = 0; i < 3; i++)
    cost = ert_min64(cost * ert_min64(shape->axis[i].kernel, shape->axis[i].in + 1), INT32_MAX);
  p->step->tasks = ert_cut(s->units, (s->rows ? 4 : 1) * cost * width / LANES + 1, p->workers);
  return EDGERT_OK;
}

/* The largest bytes of n windows of 16 lanes, the first at x, the next `step` bytes on. */
static void largest_bytes(const ert_taps *taps, const uint8_t *x, ptrdiff_t step, uint8_t *y, size_t n) {
  for (; n > 0; n--, x += step, y += LANES) {
    uint8_t found[LANES] = {0};
    for (size_t d = 0; d < taps->count[0]; d++)
      for (size_t h = 0; h < taps->count[1]; h++) {
        const uint8_t *tap = x + (ptrdiff_t)d * taps->stride[0] + (ptrdiff_t)h * taps->stride[1];
        for (size_t w = 0; w < taps->count[2]; w++, tap += taps->stride[2])
          for (int i = 0; i < LANES; i++) found[i] = tap[i] > found[i] ? tap[i] : found[i];
      }
    memcpy(y, found, sizeof found);
  }
}

/* Outputs [from, to) of a row of blocks, whose windows have the same span but for their place. */
static void blocks_outputs(const pool_state *s, const ert_pool_span *spans, const void *x, void *y, int64_t from,
                           int64_t to) {
  const ert_pool_axis *a = s->shape.axis;
  const ert_strides *at = &s->shape.x;
  const float divisor = (float)spans[0].divisor * (float)spans[1].divisor * (float)spans[2].divisor;
  const bool average = s->shape.kind == ERT_POOL_AVERAGE;
  if (spans[0].count == 0 || spans[1].count == 0 || spans[2].count == 0) {
    if (s->bytes) memset((uint8_t *)y + from * LANES, 0, (size_t)((to - from) * LANES));
    for (int64_t i = from * LANES; i < to * LANES && !s->bytes; i++) ((float *)y)[i] = average ? 0.0f : -INFINITY;
    return;
  }
  const ert_taps taps = {
      .count = {(size_t)spans[0].count, (size_t)spans[1].count, (size_t)spans[2].count},
      .stride = {(ptrdiff_t)(a[0].dilation * at->plane), (ptrdiff_t)(a[1].dilation * at->row),
                 (ptrdiff_t)(a[2].dilation * LANES)},
  };
  const int64_t first = ert_position(at, 0, spans[0].first, spans[1].first, spans[2].first);
  const ptrdiff_t step = (ptrdiff_t)(a[2].stride * LANES);
  const size_t n = (size_t)(to - from);
  if (s->bytes)
    largest_bytes(&taps, (const uint8_t *)x + first, step, (uint8_t *)y + from * LANES, n);
  else
    s->simd->pool_blocks(average, &taps, (const float *)x + first, step, 1.0f / divisor, (float *)y + from * LANES, n);
}

static void blocks_row(const pool_state *s, ert_pool_span *spans, const void *x, void *y) {
  const int64_t out = s->shape.axis[2].out;
  for (int64_t o = 0; o < out;) {
    const int64_t next = o == s->inside[0] && o < s->inside[1] ? s->inside[1] : o + 1;
    spans[2] = ert_pool_span_at(&s->shape, 2, o);
    blocks_outputs(s, spans, x, y, o, next);
    o = next;
  }
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
  if (!s->shape.x.blocked) {
    ert_pool_planar_run(&s->shape, &s->planar, s->divisors, s->simd, x, y, begin, end, scratch);
    return;
  }
  const ert_strides *x_at = &s->shape.x, *y_at = &s->shape.y;
  int64_t h = begin % a[1].out, d = begin / a[1].out % a[0].out, block = begin / a[1].out / a[0].out;
  int64_t image = block / s->blocks;
  block %= s->blocks;
  for (int64_t unit = begin; unit < end; unit++) {
    ert_pool_span spans[3] = {ert_pool_span_at(&s->shape, 0, d), ert_pool_span_at(&s->shape, 1, h), {0, 0, 0}};
    const int64_t from = image * x_at->image + block * x_at->channel;
    const int64_t to = block * y_at->channel + ert_position(y_at, image, d, h, 0);
    if (s->bytes)
      blocks_row(s, spans, (const uint8_t *)step->in[0]->data + from, (uint8_t *)step->out[0]->data + to);
    else
      blocks_row(s, spans, x + from, y + to);
    if (++h == a[1].out) h = 0, d++;
    if (d == a[0].out) d = 0, block++;
    if (block == s->blocks) block = 0, image++;
  }
}

const ert_kernel ert_kernel_pool = {.name = "pool", .prepare = prepare, .run = run, .views = true};
