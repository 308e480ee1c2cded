/* One time step of RNN, GRU and LSTM layers: a product for all sequences of a band, then the gates of each. */
#include <string.h>

#include "kernels/recurrent.h"

/* y = R[begin .. end) . state + bias (+ y) */
static void recur(const ert_recurrent *s, const ert_recurrent_band *q, const float *state, int64_t begin, int64_t end,
                  float *y, bool add) {
  ert_recurrent_multiply(s, state, s->h_pitch, q->sequences, &q->r, q->r_bias, begin, end, y, add);
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

static void rnn_state(const ert_recurrent *s, const ert_recurrent_band *q, float *gates, float *restrict h) {
  activate(s, &q->functions[0], gates, s->hidden);
  memcpy(h, gates, (size_t)s->hidden * sizeof(float));
}

/* The update and reset gates in `gates`, and what is reset: the last gate's products, or the state. */
static void gru_reset(const ert_recurrent *s, const ert_recurrent_band *q, float *restrict gates,
                      float *restrict products, const float *restrict state, float *restrict mixed) {
  const int64_t h = s->hidden;
  const float *reset = gates + h;
  add_to(gates, products, 2 * h);
  activate(s, &q->functions[0], gates, 2 * h);
  for (int64_t i = 0; i < h; ++i) {
    if (s->linear_before_reset)
      products[2 * h + i] *= reset[i];
    else
      mixed[i] = reset[i] * state[i];
  }
}

static void gru_state(const ert_recurrent *s, const ert_recurrent_band *q, float *restrict gates,
                      const float *restrict products, float *restrict state) {
  const int64_t h = s->hidden;
  const float *update = gates;
  float *fresh = gates + 2 * h;
  add_to(fresh, products + 2 * h, h);
  activate(s, &q->functions[1], fresh, h);
  for (int64_t i = 0; i < h; ++i) state[i] = (1 - update[i]) * fresh[i] + update[i] * state[i];
}

static void lstm_state(const ert_recurrent *s, const ert_recurrent_band *q, float *restrict gates,
                       float *restrict state, float *restrict cell, float *restrict mixed) {
  const int64_t h = s->hidden;
  float *write = gates, *emit = write + h, *forget = emit + h, *fresh = forget + h;
  if (q->peephole) {
    add_product(write, q->peephole, cell, h);
    add_product(forget, q->peephole + 2 * h, cell, h);
  }
  activate(s, &q->functions[0], write, h);
  activate(s, &q->functions[0], forget, h);
  activate(s, &q->functions[1], fresh, h);
  for (int64_t i = 0; i < h; ++i) {
    const float kept = s->input_forget ? 1 - write[i] : forget[i];
    cell[i] = kept * cell[i] + write[i] * fresh[i];
  }
  if (q->peephole) add_product(emit, q->peephole + h, cell, h);
  activate(s, &q->functions[0], emit, h);
  apply(s, &q->functions[2], cell, mixed, h);
  for (int64_t i = 0; i < h; ++i) state[i] = emit[i] * mixed[i];
}

#define EACH_ACTIVE(b)                       \
  for (int64_t b = 0; b < q->sequences; ++b) \
    if (t < q->length[b])

void ert_recurrent_step(const ert_recurrent *s, const ert_recurrent_band *q, float *drive, int64_t t) {
  const int64_t h = s->hidden, h_pitch = s->h_pitch, pitch = s->pitch;
  if (s->kind != ERT_GRU) {
    recur(s, q, q->h, 0, s->rows, drive, true);
    EACH_ACTIVE(b) {
      if (s->kind == ERT_RNN)
        rnn_state(s, q, drive + b * pitch, q->h + b * h_pitch);
      else
        lstm_state(s, q, drive + b * pitch, q->h + b * h_pitch, q->c + b * h_pitch, q->mixed + b * h_pitch);
    }
    return;
  }
  recur(s, q, q->h, 0, s->linear_before_reset ? s->rows : 2 * h, q->products, false);
  EACH_ACTIVE(b)
  gru_reset(s, q, drive + b * pitch, q->products + b * pitch, q->h + b * h_pitch, q->mixed + b * h_pitch);
  if (!s->linear_before_reset) recur(s, q, q->mixed, 2 * h, s->rows, q->products, false);
  EACH_ACTIVE(b) gru_state(s, q, drive + b * pitch, q->products + b * pitch, q->h + b * h_pitch);
}
