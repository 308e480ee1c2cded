/* Binding the caller's buffers. */
#include <inttypes.h>

#include "base/dtype.h"
#include "session/session.h"

enum { DEVICE_ALIGNMENT = 16 }; /* what kernels that move data rely on */

static edgert_status expect_index(uint32_t index, uint32_t count) {
  if (index < count) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "index", ert_format("below %" PRIu32, count).s,
                  ert_format("%" PRIu32, index).s);
}

static edgert_status fail_buffer(const ert_tensor *t, const char *expected, const char *got) {
  return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, ert_format("buffer of '%.80s'", t->name).s, expected, got);
}

static edgert_status expect_buffer(const ert_tensor *t, const void *data, size_t bytes, size_t alignment) {
  if (bytes != t->bytes) return fail_buffer(t, ert_format("%zu bytes", t->bytes).s, ert_format("%zu", bytes).s);
  if (bytes == 0) return EDGERT_OK;
  if (!data) return fail_buffer(t, "a pointer", "NULL");
  if ((uintptr_t)data % alignment == 0) return EDGERT_OK;
  return fail_buffer(t, ert_format("a multiple of %zu", alignment).s, ert_format("%p", data).s);
}

static void point_views(edgert_session *session, const ert_binding *binding, void *data) {
  const ert_view *views = session->plan->views;
  for (uint32_t id = binding->first_view; id != ERT_NO_VIEW; id = views[id].next)
    session->plan->tensors[id].data = (char *)data + views[id].at;
}

static void set(edgert_session *session, ert_binding *binding, const void *data, bool device, bool mirrored) {
  binding->address = (uint64_t)(uintptr_t)data;
  binding->device = device;
  binding->mirrored = mirrored;
  session->checked = false;
  session->ran = false;
}

/* Gives steps that move a tensor of the binding an address of the device; 0: none. */
static edgert_status bind_steps(edgert_session *session, const ert_binding *binding, uint64_t address) {
  const ert_plan *plan = session->plan;
  for (uint32_t id = binding->first_view; id != ERT_NO_VIEW; id = plan->views[id].next)
    for (uint32_t i = 0; i < plan->n_steps; i++)
      if (ert_device_moves(&plan->steps[i], &plan->tensors[id]))
        ERT_TRY(ert_device_bind(&plan->steps[i], address ? address + plan->views[id].at : 0));
  return EDGERT_OK;
}

/* Whether all steps that have the tensor move it to or from the device. */
static bool only_moved(const ert_plan *plan, const ert_tensor *t) {
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const ert_step *step = &plan->steps[i];
    if (ert_device_moves(step, t)) continue;
    for (uint32_t k = 0; k < step->n_in; k++)
      if (step->in[k] == t) return false;
    for (uint32_t k = 0; k < step->n_out; k++)
      if (step->out[k] == t) return false;
  }
  return true;
}

/* An output must be written as a whole by the steps that move, and addresses of views be multiples of 16. */
static bool direct(const ert_plan *plan, const ert_binding *binding) {
  for (uint32_t id = binding->first_view; id != ERT_NO_VIEW; id = plan->views[id].next)
    if (!only_moved(plan, &plan->tensors[id]) || plan->views[id].at % DEVICE_ALIGNMENT != 0) return false;
  return true;
}

static edgert_status bind(edgert_session *session, ert_binding *bindings, uint32_t count, uint32_t index, void *data,
                          size_t bytes) {
  static uint64_t nothing; /* stands for the buffer of a tensor without elements */
  ERT_TRY(expect_index(index, count));
  ert_binding *binding = &bindings[index];
  ERT_TRY(expect_buffer(binding->tensor, data, bytes, ert_dtype_bytes(binding->tensor->dtype)));
  if (bytes == 0) data = &nothing;
  if (binding->device) ERT_TRY(bind_steps(session, binding, 0));
  point_views(session, binding, data);
  set(session, binding, data, false, false);
  return EDGERT_OK;
}

static edgert_status bind_device(edgert_session *session, ert_binding *bindings, uint32_t count, uint32_t index,
                                 void *data, size_t bytes) {
  ERT_TRY(expect_index(index, count));
  ert_binding *binding = &bindings[index];
  const ert_tensor *t = binding->tensor;
  if (!session->device)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, ert_format("buffer of '%.80s'", t->name).s,
                    "memory of the host: the program uses no device", "memory of a device");
  ERT_TRY(expect_buffer(t, data, bytes, DEVICE_ALIGNMENT));
  if (bytes == 0) return bind(session, bindings, count, index, data, bytes);
  if (direct(session->plan, binding)) {
    ERT_TRY(bind_steps(session, binding, (uint64_t)(uintptr_t)data));
    set(session, binding, data, true, false);
    return EDGERT_OK;
  }
  if (!binding->mirror)
    ERT_TRY(ert_device_mirror(session->device, bytes, ert_format("copy of '%.80s'", t->name).s, &binding->mirror));
  point_views(session, binding, binding->mirror);
  set(session, binding, data, true, true);
  return EDGERT_OK;
}

static void *writable(const void *data) { return (void *)(uintptr_t)data; } /* no step writes an input, as verified */

edgert_status edgert_session_bind_input(edgert_session *session, uint32_t index, const void *data, size_t bytes) {
  ERT_TRY(ert_expect(session, "session"));
  return bind(session, session->plan->inputs, session->plan->n_inputs, index, writable(data), bytes);
}

edgert_status edgert_session_bind_output(edgert_session *session, uint32_t index, void *data, size_t bytes) {
  ERT_TRY(ert_expect(session, "session"));
  return bind(session, session->plan->outputs, session->plan->n_outputs, index, data, bytes);
}

edgert_status edgert_session_bind_device_input(edgert_session *session, uint32_t index, const void *data,
                                               size_t bytes) {
  ERT_TRY(ert_expect(session, "session"));
  return bind_device(session, session->plan->inputs, session->plan->n_inputs, index, writable(data), bytes);
}

edgert_status edgert_session_bind_device_output(edgert_session *session, uint32_t index, void *data, size_t bytes) {
  ERT_TRY(ert_expect(session, "session"));
  return bind_device(session, session->plan->outputs, session->plan->n_outputs, index, data, bytes);
}

static edgert_status expect_bound(const ert_binding *bindings, uint32_t count, const char *what) {
  for (uint32_t i = 0; i < count; i++)
    if (!bindings[i].address)
      return ert_fail(EDGERT_ERROR_NOT_BOUND, ert_format("%s %" PRIu32 " '%.80s'", what, i, bindings[i].tensor->name).s,
                      "a buffer", "none");
  return EDGERT_OK;
}

static edgert_status expect_disjoint(const ert_binding *output, const ert_binding *others, uint32_t count) {
  const ert_tensor *a = output->tensor;
  uint64_t begin = output->address, end = begin + a->bytes;
  for (uint32_t i = 0; i < count; i++) {
    const ert_tensor *b = others[i].tensor;
    uint64_t other = others[i].address;
    if (a->bytes > 0 && b->bytes > 0 && other < end && begin < other + b->bytes)
      return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, ert_format("buffers of '%.80s' and '%.80s'", a->name, b->name).s,
                      "no overlap", ert_format("0x%" PRIx64 " and 0x%" PRIx64, begin, other).s);
  }
  return EDGERT_OK;
}

edgert_status ert_session_check_bindings(edgert_session *session) {
  const ert_plan *plan = session->plan;
  if (session->checked) return EDGERT_OK;
  ERT_TRY(expect_bound(plan->inputs, plan->n_inputs, "input"));
  ERT_TRY(expect_bound(plan->outputs, plan->n_outputs, "output"));
  for (uint32_t i = 0; i < plan->n_outputs; i++) {
    ERT_TRY(expect_disjoint(&plan->outputs[i], plan->inputs, plan->n_inputs));
    ERT_TRY(expect_disjoint(&plan->outputs[i], plan->outputs, i));
  }
  session->checked = true;
  return EDGERT_OK;
}
