/* An open program with buffers for all its inputs and outputs. */
#ifndef EDGERT_TOOLS_NETWORK_H
#define EDGERT_TOOLS_NETWORK_H

#include <stdbool.h>

#include "arguments.h"
#include "edgert/edgert.h"

/* An input or output and its values. */
typedef struct port {
  edgert_tensor_info info;
  int64_t shape[EDGERT_MAX_RANK]; /* of the values: info.shape, or what the last answer made of it */
  void *data;                     /* row-major */
} port;

typedef struct network {
  edgert_session *session;
  edgert_session_info info;
  port *inputs, *outputs;
  uint32_t n_inputs, n_outputs;
} network;

/* Opens the program that the arguments choose, with `isa` (NULL: the best). False with an error printed. Close with
 * network_close, whatever the outcome. */
bool network_open(const edgert_bundle *bundle, const arguments *a, const char *isa, network *out);
void network_close(network *n);

/* Fills the inputs with pseudo-random values, the same on every machine, and those named by --input from their files.
 * False with an error printed; with `all` set, an input without a file is one. */
bool network_feed(network *n, const list *inputs, bool all);

/* Runs once; the outputs' data are then contiguous, of the outputs' shapes. False with an error printed. */
bool network_answer(network *n);

#endif
