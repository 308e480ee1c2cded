/* Recurrent layers of float32: what their time steps need. */
#ifndef ERT_KERNELS_RECURRENT_H
#define ERT_KERNELS_RECURRENT_H

#include "kernels/dense_rows.h"
#include "kernels/sliced.h"
#include "kernels/tensor.h"
#include "kernels/unary_kinds.h"

enum { ERT_RNN, ERT_GRU, ERT_LSTM };
enum { ERT_RECURRENT_FUNCTIONS = 3, ERT_RECURRENT_LINES = 56 /* inputs multiplied at a time: whole tiles of 14 */ };

typedef struct ert_recurrent {
  int kind;
  int64_t time, batch, features, hidden, directions, rows; /* rows: of the weights, gates * hidden */
  bool backwards, linear_before_reset, input_forget, batch_major;
  float clip; /* 0: none */
  ert_activation functions[2 * ERT_RECURRENT_FUNCTIONS];
  int functions_per_direction;
  const ert_simd *simd;
  bool sliced;       /* the weights are */
  ert_slices slices; /* of W and of R, by directions */
  int64_t bands, sequences,
      steps; /* of a direction; the most of a band; time steps whose inputs are multiplied at a time */
  int64_t x_pitch, pitch, h_pitch; /* floats between rows of inputs, of gates and of states in scratch */
} ert_recurrent;

/* Weights of one direction. */
typedef struct ert_recurrent_weights {
  const float *blocks; /* [rows / 16][depth][16]; NULL: they are slices */
  int64_t slice;       /* the first one */
  int64_t depth;       /* of the blocks: features or hidden */
} ert_recurrent_weights;

/* A band: some sequences of one direction. */
typedef struct ert_recurrent_band {
  ert_recurrent_weights w, r;
  const float *w_bias, *r_bias, *peephole; /* whole blocks of 16; may be NULL */
  const ert_activation *functions;
  int64_t first, sequences;
  int64_t length[ERT_RECURRENT_LINES]; /* of each sequence */
  float *products, *h, *c, *mixed;     /* of each sequence */
} ert_recurrent_band;

/* recurrent_multiply.c: y[i] = weights[begin .. end) . x[i] + bias (+ y[i] if `add`), for n rows of x; whole blocks of 16 are
 * written. */
void ert_recurrent_multiply(const ert_recurrent *s, const float *x, int64_t x_pitch, int64_t n,
                            const ert_recurrent_weights *weights, const float *bias, int64_t begin, int64_t end,
                            float *y, bool add);

/* Moves the states of all sequences longer than t by a time step. `drive` is what the inputs give the gates of each
 * sequence, `pitch` apart, and is written over. */
void ert_recurrent_step(const ert_recurrent *s, const ert_recurrent_band *q, float *drive, int64_t t);

#endif
