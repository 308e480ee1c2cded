/* recurrent: RNN, GRU and LSTM layers of float32; every sequence of every direction is independent work. */
#include <string.h>

#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/unary_kinds.h"

enum { KIND_RNN, KIND_GRU, KIND_LSTM };
enum { IN_X, IN_W, IN_R, IN_BIAS, IN_LENGTHS, IN_H, IN_C, IN_PEEPHOLE };
enum { MAX_FUNCTIONS = 3, TIME_BLOCK = 16 };

typedef struct recurrent_state {
  int kind;
  int64_t time, batch, features, hidden, directions, rows; /* rows: of the weights, gates * hidden */
  bool backwards, linear_before_reset, input_forget, batch_major;
  float clip; /* 0: none */
  ert_activation functions[2 * MAX_FUNCTIONS];
  int functions_per_direction;
  void (*unary)(int kind, float alpha, float beta, const float *x, float *y, size_t n);
} recurrent_state;

/* ---- prepare ---- */

/* `activations` holds names joined by commas. */
static edgert_status read_functions(const ert_prepare *p, recurrent_state *s) {
  const uint32_t n = (uint32_t)(s->functions_per_direction * s->directions);
  const ert_attribute *found = ert_attribute_find(p, "activations");
  const char *text = found ? found->text : "";
  const float *alphas, *betas;
  ERT_TRY(ert_floats(p, "alphas", n, &alphas));
  ERT_TRY(ert_floats(p, "betas", n, &betas));
  for (uint32_t i = 0; i < n; ++i) {
    const size_t length = strcspn(text, ",");
    int kind = 0;
    while (ert_unary_names[kind] &&
           (strlen(ert_unary_names[kind]) != length || memcmp(ert_unary_names[kind], text, length) != 0))
      ++kind;
    if (!ert_unary_names[kind] || !strchr(ert_unary_types[kind], 'f') || kind == ERT_UNARY_IS_NAN ||
        kind == ERT_UNARY_IS_INF)
      return ert_reject(p, "activations", "functions from float32 to float32, one for each gate and direction",
                        "'%.40s'", text);
    s->functions[i] = (ert_activation){kind, alphas[i], betas[i]};
    text += length;
    if (*text == ',' && i + 1 < n) ++text;
  }
  if (*text) return ert_reject(p, "activations", "one for each gate and direction", "more: '%.40s'", text);
  return EDGERT_OK;
}

static edgert_status read_attributes(const ert_prepare *p, recurrent_state *s) {
  static const char *const kinds[] = {"rnn", "gru", "lstm", NULL};
  static const char *const directions[] = {"forward", "reverse", "bidirectional", NULL};
  static const int gates[] = {1, 3, 4};
  int direction;
  int64_t linear_before_reset, input_forget, batch_major;
  ERT_TRY(ert_choice(p, "kind", kinds, &s->kind));
  ERT_TRY(ert_choice(p, "direction", directions, &direction));
  ERT_TRY(ert_int(p, "hidden", 1, INT64_MAX / 64, &s->hidden));
  ERT_TRY(ert_int_or(p, "linear_before_reset", 0, 1, 0, &linear_before_reset));
  ERT_TRY(ert_int_or(p, "input_forget", 0, 1, 0, &input_forget));
  ERT_TRY(ert_int_or(p, "batch_major", 0, 1, 0, &batch_major));
  ERT_TRY(ert_float_or(p, "clip", 0, &s->clip));
  if (!(s->clip >= 0)) return ert_reject(p, "clip", "0 or more", "%g", (double)s->clip);
  s->linear_before_reset = linear_before_reset, s->input_forget = input_forget, s->batch_major = batch_major;
  s->directions = direction == 2 ? 2 : 1;
  s->backwards = direction == 1;
  s->rows = gates[s->kind] * s->hidden;
  s->functions_per_direction = s->kind + 1;
  return read_functions(p, s);
}

static const ert_tensor *input(const ert_step *step, uint32_t i) { return i < step->n_in ? step->in[i] : NULL; }

static edgert_status expect_tensor(const ert_prepare *p, const ert_tensor *t, edgert_dtype dtype, uint32_t rank,
                                   const int64_t *shape) {
  if (!t) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, t, dtype));
  return ert_expect_shape(p, t, rank, shape);
}

static edgert_status check_operands(const ert_prepare *p, recurrent_state *s) {
  const ert_step *step = p->step;
  const bool lstm = s->kind == KIND_LSTM;
  ERT_TRY(ert_expect_operands(p, 3, lstm ? 8 : 6, 1, lstm ? 3 : 2));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = step->in[IN_X];
  if (x->rank != 3) return ert_reject(p, "rank of X", "3", "%d", x->rank);
  const int64_t d = s->directions, h = s->hidden;
  s->time = x->shape[s->batch_major ? 1 : 0], s->batch = x->shape[s->batch_major ? 0 : 1], s->features = x->shape[2];
  const int64_t y_by_batch[] = {s->batch, s->time, d, h}, y_by_time[] = {s->time, d, s->batch, h};
  const int64_t state_by_batch[] = {s->batch, d, h}, state_by_direction[] = {d, s->batch, h};
  const int64_t *state = s->batch_major ? state_by_batch : state_by_direction;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(expect_tensor(p, step->in[IN_W], EDGERT_F32, 3, (const int64_t[]){d, s->rows, s->features}));
  ERT_TRY(expect_tensor(p, step->in[IN_R], EDGERT_F32, 3, (const int64_t[]){d, s->rows, h}));
  ERT_TRY(expect_tensor(p, input(step, IN_BIAS), EDGERT_F32, 2, (const int64_t[]){d, 2 * s->rows}));
  ERT_TRY(expect_tensor(p, input(step, IN_LENGTHS), EDGERT_I32, 1, &s->batch));
  ERT_TRY(expect_tensor(p, input(step, IN_H), EDGERT_F32, 3, state));
  ERT_TRY(expect_tensor(p, input(step, IN_C), EDGERT_F32, 3, state));
  ERT_TRY(expect_tensor(p, input(step, IN_PEEPHOLE), EDGERT_F32, 2, (const int64_t[]){d, 3 * h}));
  ERT_TRY(expect_tensor(p, step->out[0], EDGERT_F32, 4, s->batch_major ? y_by_batch : y_by_time));
  for (uint32_t i = 1; i < step->n_out; ++i) ERT_TRY(expect_tensor(p, step->out[i], EDGERT_F32, 3, state));
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  recurrent_state s = {.unary = p->simd->unary};
  ERT_TRY(read_attributes(p, &s));
  ERT_TRY(check_operands(p, &s));
  void *memory;
  ERT_TRY(ert_state(p, sizeof s, &memory));
  *(recurrent_state *)memory = s;
  /* Drives of a block of time steps, gates, and three states; the weights, which are larger, fit in memory. */
  p->step->scratch_bytes = sizeof(float) * ((size_t)(TIME_BLOCK + 1) * (size_t)s.rows + 3 * (size_t)s.hidden);
  const bool nothing = p->step->out[0]->elements == 0 && p->step->n_out == 1;
  p->step->tasks = nothing ? 0 : s.directions * s.batch;
  return EDGERT_OK;
}

/* ---- run ---- */

typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));

static float dot(const float *a, const float *b, int64_t n) {
  float4 sum[4] = {{0}};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int k = 0; k < 4; ++k) sum[k] += *(const float4 *)(a + i + 4 * k) * *(const float4 *)(b + i + 4 * k);
  }
  float4 all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  float rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return (all[0] + all[1]) + (all[2] + all[3]) + rest;
}

/* y[r] = matrix[r] . x + bias[r] */
static void multiply(float *restrict y, const float *matrix, const float *bias, const float *x, int64_t rows,
                     int64_t n) {
  for (int64_t r = 0; r < rows; ++r) y[r] = dot(matrix + r * n, x, n) + (bias ? bias[r] : 0);
}

/* One direction of one sequence. */
typedef struct sequence {
  const float *w, *r, *w_bias, *r_bias, *peephole; /* of the direction; the last three may be NULL */
  const ert_activation *functions;
  float *drive, *gates, *h, *c, *mixed; /* scratch */
} sequence;

static void apply(const recurrent_state *s, const ert_activation *f, const float *x, float *y) {
  s->unary(f->kind, f->alpha, f->beta, x, y, (size_t)s->hidden);
}

/* The same of a gate, clipped first. */
static void activate(const recurrent_state *s, const ert_activation *f, float *v) {
  if (s->clip > 0) {
    for (int64_t i = 0; i < s->hidden; ++i) v[i] = v[i] > s->clip ? s->clip : v[i] < -s->clip ? -s->clip : v[i];
  }
  apply(s, f, v, v);
}

/* gates[gate] = drive[gate] + R[gate] . state + bias */
static void recur(const recurrent_state *s, const sequence *q, const float *drive, int64_t gate, int64_t gates,
                  const float *state) {
  const int64_t h = s->hidden, from = gate * h, n = gates * h;
  multiply(q->gates + from, q->r + from * h, q->r_bias ? q->r_bias + from : NULL, state, n, h);
  for (int64_t i = from; i < from + n; ++i) q->gates[i] += drive[i];
}

static void step_gru(const recurrent_state *s, const sequence *q, const float *drive) {
  const int64_t h = s->hidden;
  float *update = q->gates, *reset = update + h, *fresh = reset + h;
  recur(s, q, drive, 0, 2, q->h);
  activate(s, &q->functions[0], update);
  activate(s, &q->functions[0], reset);
  if (s->linear_before_reset) {
    multiply(fresh, q->r + 2 * h * h, q->r_bias ? q->r_bias + 2 * h : NULL, q->h, h, h);
    for (int64_t i = 0; i < h; ++i) fresh[i] = fresh[i] * reset[i] + drive[2 * h + i];
  } else {
    for (int64_t i = 0; i < h; ++i) q->mixed[i] = reset[i] * q->h[i];
    recur(s, q, drive, 2, 1, q->mixed);
  }
  activate(s, &q->functions[1], fresh);
  for (int64_t i = 0; i < h; ++i) q->h[i] = (1 - update[i]) * fresh[i] + update[i] * q->h[i];
}

static void add_product(float *restrict y, const float *restrict a, const float *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a[i] * b[i];
}

static void step_lstm(const recurrent_state *s, const sequence *q, const float *drive) {
  const int64_t h = s->hidden;
  float *write = q->gates, *emit = write + h, *forget = emit + h, *fresh = forget + h;
  recur(s, q, drive, 0, 4, q->h);
  if (q->peephole) {
    add_product(write, q->peephole, q->c, h);
    add_product(forget, q->peephole + 2 * h, q->c, h);
  }
  activate(s, &q->functions[0], write);
  activate(s, &q->functions[0], forget);
  activate(s, &q->functions[1], fresh);
  for (int64_t i = 0; i < h; ++i) {
    float kept = s->input_forget ? 1 - write[i] : forget[i];
    q->c[i] = kept * q->c[i] + write[i] * fresh[i];
  }
  if (q->peephole) add_product(emit, q->peephole + h, q->c, h);
  activate(s, &q->functions[0], emit);
  apply(s, &q->functions[2], q->c, q->mixed);
  for (int64_t i = 0; i < h; ++i) q->h[i] = emit[i] * q->mixed[i];
}

static void one_step(const recurrent_state *s, const sequence *q, const float *drive) {
  if (s->kind == KIND_GRU) {
    step_gru(s, q, drive);
  } else if (s->kind == KIND_LSTM) {
    step_lstm(s, q, drive);
  } else {
    recur(s, q, drive, 0, 1, q->h);
    activate(s, &q->functions[0], q->gates);
    memcpy(q->h, q->gates, (size_t)s->hidden * sizeof(float));
  }
}

/* Drives of time steps [first, first + n) of the sequence: row by row, so that a row of weights serves them all. */
static void drive_steps(const recurrent_state *s, const sequence *q, const float *const *x, int64_t n) {
  for (int64_t r = 0; r < s->rows; ++r) {
    for (int64_t t = 0; t < n; ++t)
      q->drive[t * s->rows + r] = dot(q->w + r * s->features, x[t], s->features) + (q->w_bias ? q->w_bias[r] : 0);
  }
}

static void load_state(float *state, const ert_tensor *initial, int64_t at, int64_t hidden) {
  if (initial)
    memcpy(state, (const float *)initial->data + at * hidden, (size_t)hidden * sizeof(float));
  else
    memset(state, 0, (size_t)hidden * sizeof(float));
}

static void run_sequence(const ert_step *step, const recurrent_state *s, const sequence *q, int64_t d, int64_t b) {
  const int64_t state_at = s->batch_major ? b * s->directions + d : d * s->batch + b;
  const ert_tensor *lengths = input(step, IN_LENGTHS);
  const int64_t length = lengths ? ert_clamp64(((const int32_t *)lengths->data)[b], 0, s->time) : s->time;
  const bool backwards = s->backwards || d == 1;
  const size_t bytes = (size_t)s->hidden * sizeof(float);
  load_state(q->h, input(step, IN_H), state_at, s->hidden);
  load_state(q->c, input(step, IN_C), state_at, s->hidden);
  for (int64_t first = 0; first < s->time; first += TIME_BLOCK) {
    const int64_t n = ert_min64(TIME_BLOCK, s->time - first), valid = ert_clamp64(length - first, 0, n);
    const float *x[TIME_BLOCK];
    for (int64_t i = 0; i < valid; ++i) {
      int64_t t = backwards ? length - 1 - (first + i) : first + i;
      x[i] = (const float *)step->in[IN_X]->data + (s->batch_major ? b * s->time + t : t * s->batch + b) * s->features;
    }
    drive_steps(s, q, x, valid);
    for (int64_t i = 0; i < n; ++i) {
      int64_t t = backwards && i < valid ? length - 1 - (first + i) : first + i;
      int64_t at = s->batch_major ? (b * s->time + t) * s->directions + d : (t * s->directions + d) * s->batch + b;
      float *y = (float *)step->out[0]->data + at * s->hidden;
      if (i < valid) {
        one_step(s, q, q->drive + i * s->rows);
        memcpy(y, q->h, bytes);
      } else {
        memset(y, 0, bytes);
      }
    }
  }
  const float *states[] = {q->h, q->c};
  for (uint32_t i = 1; i < step->n_out; ++i)
    memcpy((float *)step->out[i]->data + state_at * s->hidden, states[i - 1], bytes);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const recurrent_state *s = step->state;
  const ert_tensor *bias = input(step, IN_BIAS), *peephole = input(step, IN_PEEPHOLE);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t d = unit / s->batch, b = unit % s->batch;
    sequence q = {.w = (const float *)step->in[IN_W]->data + d * s->rows * s->features,
                  .r = (const float *)step->in[IN_R]->data + d * s->rows * s->hidden,
                  .w_bias = bias ? (const float *)bias->data + d * 2 * s->rows : NULL,
                  .r_bias = bias ? (const float *)bias->data + (d * 2 + 1) * s->rows : NULL,
                  .peephole = peephole ? (const float *)peephole->data + d * 3 * s->hidden : NULL,
                  .functions = &s->functions[d * s->functions_per_direction],
                  .drive = scratch};
    q.gates = q.drive + TIME_BLOCK * s->rows;
    q.h = q.gates + s->rows;
    q.c = q.h + s->hidden;
    q.mixed = q.c + s->hidden;
    run_sequence(step, s, &q, d, b);
  }
}

const ert_kernel ert_kernel_recurrent = {.name = "recurrent", .prepare = prepare, .run = run};
