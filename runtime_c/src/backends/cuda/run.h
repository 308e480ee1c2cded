/* Runs: steps that follow each other on the device, given to it together. */
#ifndef ERT_BACKENDS_CUDA_RUN_H
#define ERT_BACKENDS_CUDA_RUN_H

#include "backends/cuda/step.h"

/* Steps, and their graph. */
typedef struct ert_piece {
  ert_device_step **steps;
  uint32_t n_steps;
  CUgraphExec graph; /* NULL: the driver has no graphs, and they are launched one by one */
} ert_piece;

typedef struct ert_run {
  struct ert_run *next;
  ert_piece whole;   /* with staging memory */
  ert_piece *pieces; /* the same steps: each `put` and `get` by itself, so that it can have other memory at each run */
  uint32_t n_pieces; /* 0 until one of them has been bound */
  uint32_t bound;    /* steps that are */
} ert_run;

/* Cuts a run into pieces, whose memory it has. */
edgert_status ert_run_cut(ert_run *run);

/* Executes a step in its turn: the first of a run begins all of it, the last one ends it. */
void ert_run_step(ert_device_step *s);

/* ---- graph.c ---- */

/* Records what the steps give to a stream, so that it is given at once. */
edgert_status ert_piece_capture(ert_piece *piece);
edgert_status ert_piece_submit(const ert_piece *piece, CUstream stream);
void ert_piece_free(ert_piece *piece);

/* "steps 3 to 17", for messages. */
ert_text ert_piece_text(const ert_piece *piece);

#endif
