/* Recurrent layers of float32: what their time steps need. */
#ifndef ERT_KERNELS_RECURRENT_H
#define ERT_KERNELS_RECURRENT_H

#include "kernels/dense_rows.h"
#include "kernels/sliced.h"
#include "kernels/tensor.h"
#include "kernels/unary_kinds.h"

enum { ERT_RNN, ERT_GRU, ERT_LSTM };
enum { ERT_RECURRENT_FUNCTIONS = 3, ERT_RECURRENT_LINES = 56 /* inputs multiplied at a time: whole tiles of 14 */ };

typedef struct ert_recurrent_band ert_recurrent_band;

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
  int phases;                      /* of a time step: products of what another product gave are one more */
  int64_t pieces; /* of a band's hidden units, one for each of as many workers, which take every phase together */
  ert_recurrent_band *shared; /* if there are several: of every task of a round, */
  float *space;               /* and their memory, then that of the states of every band */
} ert_recurrent;

/* Weights of one direction. */
typedef struct ert_recurrent_weights {
  const float *blocks; /* [rows / 16][depth][16]; NULL: they are slices */
  int64_t slice;       /* the first one */
  int64_t depth;       /* of the blocks: features or hidden */
} ert_recurrent_weights;

/* A band: some sequences of one direction; and a piece of their hidden units, to which all of this belongs but the states h
 * and mixed, of which products need every unit. */
struct ert_recurrent_band {
  ert_recurrent_weights w, r;
  const float *w_bias, *r_bias, *peephole; /* whole blocks of 16; may be NULL */
  const ert_activation *functions;
  int64_t direction, first, sequences, longest;
  int64_t length[ERT_RECURRENT_LINES]; /* of each sequence */
  int64_t from, to;                    /* hidden units */
  float *copy, *drive;                 /* of a block of time steps: inputs, and what they give the gates */
  float *products, *c, *mixed, *h[2];  /* of each sequence; h before and after steps in turn, or both in one place */
};

/* recurrent_multiply.c: y[i] = weights . x[i] + bias (+ y[i] if `add`) for n rows of x and gates [begin, end) of the band's
 * units; whole blocks of 16 are written. */
void ert_recurrent_multiply(const ert_recurrent *s, const ert_recurrent_band *q, const float *x, int64_t x_pitch,
                            int64_t n, const ert_recurrent_weights *weights, const float *bias, int64_t begin,
                            int64_t end, float *y, bool add);

/* A phase of time step t, after all of which the states of its sequences have moved on, if they are longer than t. `drive` is
 * what the inputs give the gates of each sequence, `pitch` apart, and is written over. */
void ert_recurrent_step(const ert_recurrent *s, const ert_recurrent_band *q, float *drive, int64_t t, int phase);

#endif
