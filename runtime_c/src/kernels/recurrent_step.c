/* One time step of RNN, GRU and LSTM layers: a product for all sequences of a band, then the gates of each. */
#include <string.h>

#include "kernels/recurrent.h"

/* y = R . state + bias (+ y), for gates [begin, end) */
static void recur(const ert_recurrent *s, const ert_recurrent_band *q, const float *state, int64_t begin, int64_t end,
                  float *y, bool add) {
  ert_recurrent_multiply(s, q, state, s->h_pitch, q->sequences, &q->r, q->r_bias, begin, end, y, add);
}

static void apply(const ert_recurrent *s, const ert_activation *f, const float *x, float *y, int64_t n) {
  s->simd->unary(f->kind, f->alpha, f->beta, x, y, (size_t)n);
}

/* The same of n gates, clipped first. */
static void activate(const ert_recurrent *s, const ert_activation *f, float *v, int64_t n) {
  if (s->clip > 0) {
    for (int64_t i = 0; i < n; ++i) v[i] = v[i] > s->clip ? s->clip : v[i] < -s->clip ? -s->clip : v[i];
  }
  apply(s, f, v, v, n);
}

static void add_to(float *restrict y, const float *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

static void add_product(float *restrict y, const float *restrict a, const float *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a[i] * b[i];
}

/* What follows moves n units of one sequence on. Pointers are to the first of them; gates lie `hidden` apart. */

static void rnn_state(const ert_recurrent *s, const ert_recurrent_band *q, float *gates, float *restrict next,
                      int64_t n) {
  activate(s, &q->functions[0], gates, n);
  memcpy(next, gates, (size_t)n * sizeof(float));
}

/* The update and reset gates in `gates`, and what is reset: the last gate's products, or the state. */
static void gru_reset(const ert_recurrent *s, const ert_recurrent_band *q, float *restrict gates,
                      float *restrict products, const float *restrict state, float *restrict mixed, int64_t n) {
  const int64_t h = s->hidden;
  const float *reset = gates + h;
  for (int64_t gate = 0; gate < 2; ++gate) {
    add_to(gates + gate * h, products + gate * h, n);
    activate(s, &q->functions[0], gates + gate * h, n);
  }
  for (int64_t i = 0; i < n; ++i) {
    if (s->linear_before_reset)
      products[2 * h + i] *= reset[i];
    else
      mixed[i] = reset[i] * state[i];
  }
}

static void gru_state(const ert_recurrent *s, const ert_recurrent_band *q, float *restrict gates,
                      const float *restrict products, const float *state, float *next, int64_t n) {
  const int64_t h = s->hidden;
  const float *update = gates;
  float *fresh = gates + 2 * h;
  add_to(fresh, products + 2 * h, n);
  activate(s, &q->functions[1], fresh, n);
  for (int64_t i = 0; i < n; ++i) next[i] = (1 - update[i]) * fresh[i] + update[i] * state[i];
}

static void lstm_state(const ert_recurrent *s, const ert_recurrent_band *q, const float *peephole,
                       float *restrict gates, float *restrict next, float *restrict cell, float *restrict mixed,
                       int64_t n) {
  const int64_t h = s->hidden;
  float *write = gates, *emit = write + h, *forget = emit + h, *fresh = forget + h;
  if (peephole) {
    add_product(write, peephole, cell, n);
    add_product(forget, peephole + 2 * h, cell, n);
  }
  activate(s, &q->functions[0], write, n);
  activate(s, &q->functions[0], forget, n);
  activate(s, &q->functions[1], fresh, n);
  for (int64_t i = 0; i < n; ++i) {
    const float kept = s->input_forget ? 1 - write[i] : forget[i];
    cell[i] = kept * cell[i] + write[i] * fresh[i];
  }
  if (peephole) add_product(emit, peephole + h, cell, n);
  activate(s, &q->functions[0], emit, n);
  apply(s, &q->functions[2], cell, mixed, n);
  for (int64_t i = 0; i < n; ++i) next[i] = emit[i] * mixed[i];
}

void ert_recurrent_step(const ert_recurrent *s, const ert_recurrent_band *q, float *drive, int64_t t, int phase) {
  const bool gru = s->kind == ERT_GRU;
  const int64_t n = q->to - q->from;
  const float *before = q->h[t & 1];
  if (phase > 0)
    recur(s, q, q->mixed, 2, 3, q->products, false);
  else if (gru)
    recur(s, q, before, 0, s->phases > 1 ? 2 : 3, q->products, false);
  else
    recur(s, q, before, 0, s->rows / s->hidden, drive, true);
  for (int64_t b = 0; b < q->sequences; ++b) {
    const int64_t at = b * s->h_pitch + q->from;
    float *gates = drive + b * s->pitch + q->from, *products = q->products + b * s->pitch + q->from;
    const float *state = before + at;
    float *next = q->h[(t + 1) & 1] + at, *mixed = q->mixed + at;
    if (t >= q->length[b]) {
      if (next != state) memcpy(next, state, (size_t)n * sizeof(float));
      continue;
    }
    if (gru && phase == 0) gru_reset(s, q, gates, products, state, mixed, n);
    if (phase + 1 < s->phases) continue;
    if (gru)
      gru_state(s, q, gates, products, state, next, n);
    else if (s->kind == ERT_LSTM)
      lstm_state(s, q, q->peephole ? q->peephole + q->from : NULL, gates, next, q->c + at, mixed, n);
    else
      rnn_state(s, q, gates, next, n);
  }
}
