/* recurrent: RNN, GRU and LSTM layers of float32; recurrent_sliced: the same with sparse weights in slices. A task is a band
 * of sequences of one direction: the inputs of a block of time steps are multiplied, then the steps taken one by one. Where
 * there are more workers than bands, each has a piece of the hidden units instead, and the steps are rounds. */
#include "kernels/recurrent.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/partition.h"
#include "kernels/transpose.h"

/* Operands: X, weights, and behind these the others, some of which may be missing. */
enum { IN_X, IN_W, IN_R, IN_SLICES = IN_W };
enum { BIAS, LENGTHS, H, C, PEEPHOLE };

/* ---- prepare ---- */

/* `activations` holds names joined by commas. */
static edgert_status read_functions(const ert_prepare *p, ert_recurrent *s) {
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

static edgert_status read_attributes(const ert_prepare *p, ert_recurrent *s) {
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

static const ert_tensor *other(const ert_step *step, const ert_recurrent *s, uint32_t i) {
  const uint32_t at = (s->sliced ? IN_SLICES + 4 : IN_R + 1) + i;
  return at < step->n_in ? step->in[at] : NULL;
}

static edgert_status expect_tensor(const ert_prepare *p, const ert_tensor *t, edgert_dtype dtype, uint32_t rank,
                                   const int64_t *shape) {
  if (!t) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, t, dtype));
  ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_PLANAR));
  return ert_expect_shape(p, t, rank, shape);
}

/* Weights [directions, rows, depth]: in blocks of 16 rows, or planar. */
static edgert_status expect_weights(const ert_prepare *p, const ert_recurrent *s, const ert_tensor *t, int64_t depth) {
  ERT_TRY(ert_expect_dtype(p, t, EDGERT_F32));
  if (t->layout != ERT_LAYOUT_PLANAR) ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_WEIGHT16));
  return ert_expect_shape(p, t, 3, (const int64_t[]){s->directions, s->rows, depth});
}

/* Those of W for each direction, then those of R. */
static edgert_status expect_slices(const ert_prepare *p, ert_recurrent *s) {
  const int64_t each = ert_ceil_divide(s->rows, ERT_SLICE) * s->directions;
  ERT_TRY(ert_slices_read(p, &p->step->in[IN_SLICES], 2 * each, &s->slices));
  ERT_TRY(ert_slices_prove(p, &s->slices, 0, each, s->features));
  return ert_slices_prove(p, &s->slices, each, each, s->hidden);
}

static edgert_status check_operands(const ert_prepare *p, ert_recurrent *s) {
  const ert_step *step = p->step;
  const bool lstm = s->kind == ERT_LSTM;
  const uint32_t weights = s->sliced ? 4 : 2;
  ERT_TRY(ert_expect_operands(p, 1 + weights, weights + (lstm ? 6 : 4), 1, lstm ? 3 : 2));
  const ert_tensor *x = step->in[IN_X];
  if (x->rank != 3) return ert_reject(p, "rank of X", "3", "%d", x->rank);
  const int64_t d = s->directions, h = s->hidden;
  s->time = x->shape[s->batch_major ? 1 : 0], s->batch = x->shape[s->batch_major ? 0 : 1], s->features = x->shape[2];
  const int64_t y_by_batch[] = {s->batch, s->time, d, h}, y_by_time[] = {s->time, d, s->batch, h};
  const int64_t state_by_batch[] = {s->batch, d, h}, state_by_direction[] = {d, s->batch, h};
  const int64_t *state = s->batch_major ? state_by_batch : state_by_direction;
  ERT_TRY(expect_tensor(p, x, EDGERT_F32, 3, x->shape));
  if (s->sliced) {
    ERT_TRY(expect_slices(p, s));
  } else {
    ERT_TRY(expect_weights(p, s, step->in[IN_W], s->features));
    ERT_TRY(expect_weights(p, s, step->in[IN_R], h));
  }
  ERT_TRY(expect_tensor(p, other(step, s, BIAS), EDGERT_F32, 2, (const int64_t[]){d, 2 * s->rows}));
  ERT_TRY(expect_tensor(p, other(step, s, LENGTHS), EDGERT_I32, 1, &s->batch));
  ERT_TRY(expect_tensor(p, other(step, s, H), EDGERT_F32, 3, state));
  ERT_TRY(expect_tensor(p, other(step, s, C), EDGERT_F32, 3, state));
  ERT_TRY(expect_tensor(p, other(step, s, PEEPHOLE), EDGERT_F32, 2, (const int64_t[]){d, 3 * h}));
  ERT_TRY(expect_tensor(p, step->out[0], EDGERT_F32, 4, s->batch_major ? y_by_batch : y_by_time));
  for (uint32_t i = 1; i < step->n_out; ++i) ERT_TRY(expect_tensor(p, step->out[i], EDGERT_F32, 3, state));
  return EDGERT_OK;
}

/* Bands of sequences, as many as keep every worker busy; blocks of time steps of at most ERT_RECURRENT_LINES inputs. */
static void cut(ert_recurrent *s, int64_t workers) {
  const double products =
      (double)s->batch * (double)s->directions * (double)s->rows * (double)(s->features + s->hidden);
  s->bands = ert_ceil_divide(s->batch, ERT_RECURRENT_LINES);
  const int64_t pieces = ert_pieces(s->bands * s->directions, products * (double)s->time, workers);
  s->bands = ert_min64(s->bands * pieces, s->batch);
  s->sequences = s->bands > 0 ? ert_ceil_divide(s->batch, s->bands) : 0;
  s->steps = ert_clamp64(ERT_RECURRENT_LINES / ert_max64(s->sequences, 1), 1, ert_max64(s->time, 1));
  s->x_pitch = ert_spread_pitch(s->features);
  s->h_pitch = ert_spread_pitch(s->hidden);
  s->pitch = ert_spread_pitch(s->rows);
  s->phases = s->kind == ERT_GRU && !s->linear_before_reset ? 2 : 1;
}

/* Pieces of whole blocks of 16 units, for workers without a band, if a time step takes far longer than to wait for others. */
static int64_t pieces_of(const ert_prepare *p, const ert_recurrent *s) {
  enum { WORTH_WAITING = 1 << 16 }; /* products */
  const int64_t tasks = s->directions * s->bands, blocks = s->hidden / 16;
  const double products = (double)s->sequences * (double)s->rows * (double)s->hidden;
  const bool planar = !s->sliced && (p->step->in[IN_W]->layout == ERT_LAYOUT_PLANAR ||
                                     p->step->in[IN_R]->layout == ERT_LAYOUT_PLANAR); /* packed for each task */
  if (tasks == 0 || s->time < 2 || s->hidden % 16 != 0 || products < (double)WORTH_WAITING || planar) return 1;
  return ert_clamp64(p->workers / tasks, 1, blocks);
}

/* Floats of scratch that a task has to itself: biases, inputs and gates of a block of time steps, products and cells. */
static int64_t own_floats(const ert_recurrent *s) {
  const int64_t lines = s->steps * s->sequences;
  return 2 * s->pitch + lines * (s->x_pitch + s->pitch) + s->sequences * (s->pitch + s->h_pitch);
}

/* Floats of the states of a band that all of its pieces share. */
static int64_t state_floats(const ert_recurrent *s) { return (s->pieces > 1 ? 3 : 2) * s->sequences * s->h_pitch; }

/* Floats of scratch that planar weights of a direction are packed into. */
static int64_t packed_floats(const ert_recurrent *s, const ert_tensor *weights) {
  return weights->layout == ERT_LAYOUT_PLANAR ? (s->rows + 15) / 16 * 16 * weights->shape[2] : 0;
}

/* Memory for tasks that go on from round to round. */
static edgert_status take_rounds(ert_prepare *p, ert_recurrent *s) {
  const int64_t bands = s->directions * s->bands, tasks = bands * s->pieces;
  size_t bytes;
  if (!ert_multiply((size_t)(tasks * own_floats(s) + bands * state_floats(s)), sizeof(float), &bytes)) bytes = SIZE_MAX;
  ERT_TRY(ert_state(p, (size_t)tasks * sizeof *s->shared, (void **)&s->shared));
  ERT_TRY(ert_state(p, bytes, (void **)&s->space));
  p->step->rounds = 1 + s->time * s->phases;
  p->step->tasks = p->step->rounds * tasks;
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p, bool sliced) {
  ert_recurrent s = {.simd = p->simd, .sliced = sliced};
  ERT_TRY(read_attributes(p, &s));
  ERT_TRY(check_operands(p, &s));
  cut(&s, p->workers);
  s.pieces = pieces_of(p, &s);
  if (s.pieces > 1) ERT_TRY(take_rounds(p, &s));
  void *memory;
  ERT_TRY(ert_state(p, sizeof s, &memory));
  *(ert_recurrent *)memory = s;
  if (s.pieces > 1) return EDGERT_OK;
  const int64_t packed = sliced ? 0 : packed_floats(&s, p->step->in[IN_W]) + packed_floats(&s, p->step->in[IN_R]);
  p->step->scratch_bytes = sizeof(float) * (size_t)(own_floats(&s) + state_floats(&s) + packed);
  const bool nothing = p->step->out[0]->elements == 0 && p->step->n_out == 1;
  p->step->tasks = nothing ? 0 : s.directions * s.bands;
  return EDGERT_OK;
}

static edgert_status prepare_dense(ert_prepare *p) { return prepare(p, false); }
static edgert_status prepare_sliced(ert_prepare *p) { return prepare(p, true); }

/* ---- run ---- */

/* Rows [rows][depth] in blocks [depth][16]; lanes past the last row are zero. */
static void pack(const float *from, int64_t rows, int64_t depth, float *to) {
  for (; rows > 0; rows -= 16, from += 16 * depth, to += 16 * depth) {
    const int64_t lanes = ert_min64(rows, 16);
    if (lanes < 16) memset(to, 0, (size_t)depth * 64);
    ert_transpose(to, 16, from, depth, depth, lanes, sizeof(float));
  }
}

/* W or R of direction d: slices; blocks where they are, or, of planar ones, in scratch. */
static ert_recurrent_weights weights_of(const ert_step *step, const ert_recurrent *s, uint32_t in, int64_t d,
                                        float **scratch) {
  if (s->sliced) {
    const int64_t each = ert_ceil_divide(s->rows, ERT_SLICE), matrix = (in == IN_R ? s->directions : 0) + d;
    return (ert_recurrent_weights){.slice = matrix * each};
  }
  const ert_tensor *weights = step->in[in];
  const int64_t depth = weights->shape[2];
  if (weights->layout == ERT_LAYOUT_WEIGHT16)
    return (ert_recurrent_weights){(const float *)weights->data + d * ert_weight_strides_of(weights).group, 0, depth};
  float *packed = *scratch;
  *scratch += packed_floats(s, weights);
  pack((const float *)weights->data + d * s->rows * depth, s->rows, depth, packed);
  return (ert_recurrent_weights){packed, 0, depth};
}

/* `rows` floats with whole blocks of 16 of memory behind them, a copy if need be; NULL if there are none. */
static const float *padded(const ert_recurrent *s, const float *from, float *to) {
  if (!from || s->rows % 16 == 0) return from;
  memset(to + s->rows / 16 * 16, 0, 16 * sizeof(float));
  return memcpy(to, from, (size_t)s->rows * sizeof(float));
}

/* Element 0 of the band's own units in a model's state of sequence i. */
static int64_t state_at(const ert_recurrent *s, const ert_recurrent_band *q, int64_t i) {
  const int64_t b = q->first + i, d = q->direction;
  return (s->batch_major ? b * s->directions + d : d * s->batch + b) * s->hidden + q->from;
}

static void load_states(const ert_recurrent *s, const ert_recurrent_band *q, const ert_tensor *initial, float *state) {
  const size_t bytes = (size_t)(q->to - q->from) * sizeof(float);
  for (int64_t i = 0; i < q->sequences; ++i) {
    float *to = state + i * s->h_pitch + q->from;
    if (initial)
      memcpy(to, (const float *)initial->data + state_at(s, q, i), bytes);
    else
      memset(to, 0, bytes);
  }
}

static void store_states(const ert_step *step, const ert_recurrent *s, const ert_recurrent_band *q) {
  const float *states[] = {q->h[q->longest & 1], q->c};
  for (uint32_t o = 1; o < step->n_out; ++o)
    for (int64_t i = 0; i < q->sequences; ++i)
      memcpy((float *)step->out[o]->data + state_at(s, q, i), states[o - 1] + i * s->h_pitch + q->from,
             (size_t)(q->to - q->from) * sizeof(float));
}

/* The time of step i of a sequence of some length; past its end that of a step of zeros. */
static int64_t time_of(const ert_recurrent *s, int64_t d, int64_t length, int64_t i) {
  const bool backwards = s->backwards || d == 1;
  return backwards && i < length ? length - 1 - i : i;
}

/* The gates' part of n time steps from `first` on of all sequences, through a copy of their inputs. */
static void drive_steps(const ert_step *step, const ert_recurrent *s, const ert_recurrent_band *q, int64_t first,
                        int64_t n) {
  const size_t bytes = (size_t)s->features * sizeof(float);
  float *to = q->copy;
  for (int64_t i = first; i < first + n; ++i) {
    for (int64_t k = 0; k < q->sequences; ++k, to += s->x_pitch) {
      const int64_t b = q->first + k, t = time_of(s, q->direction, q->length[k], i);
      const int64_t at = s->batch_major ? b * s->time + t : t * s->batch + b;
      if (i < q->length[k])
        memcpy(to, (const float *)step->in[IN_X]->data + at * s->features, bytes);
      else
        memset(to, 0, bytes);
    }
  }
  ert_recurrent_multiply(s, q, q->copy, s->x_pitch, n * q->sequences, &q->w, q->w_bias, 0, s->rows / s->hidden,
                         q->drive, false);
}

/* Outputs of time step i: the states, or zeros past the end of a sequence. */
static void store(const ert_step *step, const ert_recurrent *s, const ert_recurrent_band *q, int64_t i) {
  const size_t bytes = (size_t)(q->to - q->from) * sizeof(float);
  const int64_t d = q->direction;
  const float *h = q->h[(i + 1) & 1] + q->from;
  for (int64_t k = 0; k < q->sequences; ++k) {
    const int64_t b = q->first + k, t = time_of(s, d, q->length[k], i);
    const int64_t at = s->batch_major ? (b * s->time + t) * s->directions + d : (t * s->directions + d) * s->batch + b;
    float *y = (float *)step->out[0]->data + at * s->hidden + q->from;
    if (i < q->length[k])
      memcpy(y, h + k * s->h_pitch, bytes);
    else
      memset(y, 0, bytes);
  }
}

/* A phase of time step i. */
static void advance(const ert_step *step, const ert_recurrent *s, const ert_recurrent_band *q, int64_t i, int phase) {
  const int64_t at = i % s->steps;
  if (i < q->longest) {
    if (at == 0 && phase == 0) drive_steps(step, s, q, i, ert_min64(s->steps, s->time - i));
    ert_recurrent_step(s, q, q->drive + at * q->sequences * s->pitch, i, phase);
  }
  if (phase + 1 == s->phases) store(step, s, q, i);
}

/* The band, and piece of units, of a task, with its own memory and that for states. */
static void begin_band(const ert_step *step, const ert_recurrent *s, int64_t task, float *own, float *states,
                       ert_recurrent_band *q) {
  const ert_tensor *bias = other(step, s, BIAS), *peephole = other(step, s, PEEPHOLE),
                   *lengths = other(step, s, LENGTHS);
  const int64_t piece = task % s->pieces, band = task / s->pieces % s->bands, d = task / s->pieces / s->bands;
  const int64_t state = s->sequences * s->h_pitch;
  const float *biases = bias ? (const float *)bias->data + d * 2 * s->rows : NULL;
  float *packed = states + state_floats(s);
  q->w = weights_of(step, s, IN_W, d, &packed);
  q->r = weights_of(step, s, IN_R, d, &packed);
  q->w_bias = padded(s, biases, own);
  q->r_bias = padded(s, biases ? biases + s->rows : NULL, own + s->pitch);
  q->peephole = peephole ? (const float *)peephole->data + d * 3 * s->hidden : NULL;
  q->functions = &s->functions[d * s->functions_per_direction];
  q->direction = d;
  q->first = ert_cut_at(s->batch, s->bands, band);
  q->sequences = ert_cut_at(s->batch, s->bands, band + 1) - q->first;
  q->from = s->pieces > 1 ? 16 * ert_cut_at(s->hidden / 16, s->pieces, piece) : 0;
  q->to = s->pieces > 1 ? 16 * ert_cut_at(s->hidden / 16, s->pieces, piece + 1) : s->hidden;
  q->longest = 0;
  for (int64_t i = 0; i < q->sequences; ++i) {
    const int64_t length = lengths ? ((const int32_t *)lengths->data)[q->first + i] : s->time;
    q->length[i] = ert_clamp64(length, 0, s->time);
    q->longest = ert_max64(q->longest, q->length[i]);
  }
  q->copy = own + 2 * s->pitch;
  q->drive = q->copy + s->steps * s->sequences * s->x_pitch;
  q->products = q->drive + s->steps * s->sequences * s->pitch;
  q->c = q->products + s->sequences * s->pitch;
  q->mixed = states;
  q->h[0] = states + state;
  q->h[1] = s->pieces > 1 ? q->h[0] + state : q->h[0];
  load_states(s, q, other(step, s, H), q->h[0]);
  load_states(s, q, other(step, s, C), q->c);
  load_states(s, q, NULL, q->mixed); /* sequences that have ended are multiplied too */
}

/* A round of a task: its beginning, or a phase of a time step. */
static void run_round(const ert_step *step, const ert_recurrent *s, int64_t round, int64_t task) {
  ert_recurrent_band *q = &s->shared[task];
  const int64_t bands = s->directions * s->bands, tasks = bands * s->pieces;
  float *states = s->space + tasks * own_floats(s) + task / s->pieces * state_floats(s);
  if (round == 0)
    begin_band(step, s, task, s->space + task * own_floats(s), states, q);
  else
    advance(step, s, q, (round - 1) / s->phases, (int)((round - 1) % s->phases));
  if (round + 1 == step->rounds) store_states(step, s, q);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const ert_recurrent *s = step->state;
  const int64_t round_tasks = ert_round_tasks(step);
  for (int64_t task = begin; task < end; ++task) {
    if (step->rounds > 0) {
      run_round(step, s, task / round_tasks, task % round_tasks);
      continue;
    }
    ert_recurrent_band q;
    float *own = scratch;
    begin_band(step, s, task, own, own + own_floats(s), &q);
    for (int64_t i = 0; i < s->time; ++i)
      for (int phase = 0; phase < s->phases; ++phase) advance(step, s, &q, i, phase);
    store_states(step, s, &q);
  }
}

const ert_kernel ert_kernel_recurrent = {.name = "recurrent", .prepare = prepare_dense, .run = run};
const ert_kernel ert_kernel_recurrent_sliced = {.name = "recurrent_sliced", .prepare = prepare_sliced, .run = run};
