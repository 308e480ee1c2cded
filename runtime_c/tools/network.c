/* An open program with buffers for all its inputs and outputs. */
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "emulator.h"
#include "npy.h"
#include "tensor.h"
#include "text.h"

static bool open_port(edgert_session *session, bool output, uint32_t index, port *p) {
  if (output ? edgert_session_output(session, index, &p->info) : edgert_session_input(session, index, &p->info))
    return fail_library();
  memcpy(p->shape, p->info.shape, sizeof p->shape);
  p->data = allocate(p->info.bytes, 1);
  if (!p->data) return false;
  return (output ? edgert_session_bind_output(session, index, p->data, p->info.bytes)
                 : edgert_session_bind_input(session, index, p->data, p->info.bytes)) == EDGERT_OK ||
         fail_library();
}

bool network_open(const edgert_bundle *bundle, const arguments *a, const char *isa, network *out) {
  *out = (network){.session = NULL};
  edgert_session_options options = {.struct_size = sizeof options, .threads = a->threads, .isa = isa};
  if (!emulator_choose(bundle, a, &options)) return false;
  if (edgert_session_open(bundle, &options, &out->session) || edgert_session_describe(out->session, &out->info))
    return fail_library();
  uint32_t inputs = edgert_session_input_count(out->session), outputs = edgert_session_output_count(out->session);
  out->inputs = allocate(inputs, sizeof(port));
  out->outputs = allocate(outputs, sizeof(port));
  if (!out->inputs || !out->outputs) return false;
  out->n_inputs = inputs;
  out->n_outputs = outputs;
  for (uint32_t i = 0; i < inputs; i++)
    if (!open_port(out->session, false, i, &out->inputs[i])) return false;
  for (uint32_t i = 0; i < outputs; i++)
    if (!open_port(out->session, true, i, &out->outputs[i])) return false;
  return true;
}

void network_close(network *n) {
  edgert_session_close(n->session);
  for (uint32_t i = 0; i < n->n_inputs; i++) free(n->inputs[i].data);
  for (uint32_t i = 0; i < n->n_outputs; i++) free(n->outputs[i].data);
  free(n->inputs);
  free(n->outputs);
}

/* Floats from -1 to 1; integers 0 or 1, which are valid as indices. */
static void fill(port *p, uint32_t seed) {
  size_t count = shape_elements(p->info.rank, p->info.shape), bytes = dtype_bytes(p->info.dtype);
  memset(p->data, 0, p->info.bytes);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    char *at = (char *)p->data + i * bytes;
    float value = (float)(seed >> 8) / (1 << 23) - 1;
    if (dtype_is_float(p->info.dtype))
      memcpy(at, &value, sizeof value);
    else
      *at = (char)(seed >> 31); /* the lowest byte comes first */
  }
}

/* The input that NAME=FILE names, and *file; without NAME, the only one. */
static port *find_input(network *n, const char *word, const char **file) {
  port *found = NULL;
  size_t longest = 0;
  for (uint32_t i = 0; i < n->n_inputs; i++) { /* a name may hold "=" itself */
    size_t length = strlen(n->inputs[i].info.name);
    if (strncmp(word, n->inputs[i].info.name, length) != 0 || word[length] != '=' || length < longest) continue;
    found = &n->inputs[i];
    longest = length;
    *file = word + length + 1;
  }
  if (found) return found;
  *file = word;
  if (n->n_inputs == 1 && !strchr(word, '=')) return n->inputs;
  fail("--input '%s'\nexpected NAME=FILE with the name of an input, such as %s=FILE", word,
       n->n_inputs ? n->inputs[0].info.name : "(it has none)");
  return NULL;
}

bool network_feed(network *n, const list *inputs, bool all) {
  bool *given = allocate(n->n_inputs, sizeof *given);
  bool good = given != NULL;
  for (uint32_t i = 0; good && i < n->n_inputs; i++) fill(&n->inputs[i], i);
  for (uint32_t i = 0; good && i < inputs->count; i++) {
    const char *file;
    port *input = find_input(n, inputs->items[i], &file);
    good = input && array_read(file, &input->info, input->data);
    if (good) given[input - n->inputs] = true;
  }
  for (uint32_t i = 0; good && all && i < n->n_inputs; i++) {
    const edgert_tensor_info *info = &n->inputs[i].info;
    if (!given[i])
      good = fail("input '%s', %s%s, has no value\nPass --input %s=FILE.", info->name, dtype_name(info->dtype),
                  shape_text(info->rank, info->shape).s, info->name);
  }
  free(given);
  return good;
}

/* Moves the meaningful part of an output, which is of p->shape within p->info.shape, to its beginning. */
static void gather(port *p) {
  uint32_t axis = 0;
  while (axis < p->info.rank && p->shape[axis] == p->info.shape[axis]) axis++;
  if (axis == p->info.rank) return;
  size_t outer = shape_elements(axis, p->shape);
  size_t inner = shape_elements(p->info.rank - axis - 1, p->shape + axis + 1) * dtype_bytes(p->info.dtype);
  size_t from = (size_t)p->info.shape[axis] * inner, to = (size_t)p->shape[axis] * inner;
  char *data = p->data;
  for (size_t i = 1; i < outer; i++) memmove(data + i * to, data + i * from, to);
}

bool network_answer(network *n) {
  if (edgert_session_run(n->session)) return fail_library();
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    if (edgert_session_output_shape(n->session, i, n->outputs[i].shape)) return fail_library();
    gather(&n->outputs[i]);
  }
  return true;
}
