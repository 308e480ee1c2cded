/* Binding the caller's buffers, and running the steps. */
#include <inttypes.h>

#include "base/dtype.h"
#include "platform/clock.h"
#include "session/session.h"

static edgert_status bind(edgert_session *session, ert_binding *bindings, uint32_t count, uint32_t index, void *data,
                          size_t bytes) {
  static uint64_t nothing; /* stands for the buffer of a tensor without elements */
  if (index >= count)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "index", ert_format("below %" PRIu32, count).s,
                    ert_format("%" PRIu32, index).s);
  ert_binding *binding = &bindings[index];
  const ert_tensor *t = binding->tensor;
  ert_text where = ert_format("buffer of '%.80s'", t->name);
  if (bytes != t->bytes)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, where.s, ert_format("%zu bytes", t->bytes).s,
                    ert_format("%zu", bytes).s);
  if (bytes == 0) data = &nothing;
  if (!data) return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, where.s, "a pointer", "NULL");
  size_t alignment = ert_dtype_bytes(t->dtype);
  if ((uintptr_t)data % alignment != 0)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, where.s, ert_format("a multiple of %zu", alignment).s,
                    ert_format("%p", data).s);
  const ert_view *views = session->plan->views;
  for (uint32_t id = binding->first_view; id != ERT_NO_VIEW; id = views[id].next)
    session->plan->tensors[id].data = (char *)data + views[id].at;
  binding->bound = true;
  session->checked = false;
  session->ran = false;
  return EDGERT_OK;
}

edgert_status edgert_session_bind_input(edgert_session *session, uint32_t index, const void *data, size_t bytes) {
  void *writable = (void *)(uintptr_t)data; /* no step writes an input, as verified */
  return bind(session, session->plan->inputs, session->plan->n_inputs, index, writable, bytes);
}

edgert_status edgert_session_bind_output(edgert_session *session, uint32_t index, void *data, size_t bytes) {
  return bind(session, session->plan->outputs, session->plan->n_outputs, index, data, bytes);
}

static edgert_status expect_bound(const ert_binding *bindings, uint32_t count, const char *what) {
  for (uint32_t i = 0; i < count; i++)
    if (!bindings[i].bound)
      return ert_fail(EDGERT_ERROR_NOT_BOUND, ert_format("%s %" PRIu32 " '%.80s'", what, i, bindings[i].tensor->name).s,
                      "a buffer", "none");
  return EDGERT_OK;
}

static edgert_status expect_disjoint(const ert_binding *output, const ert_binding *others, uint32_t count) {
  const ert_tensor *a = output->tensor;
  uintptr_t begin = (uintptr_t)a->data, end = begin + a->bytes;
  for (uint32_t i = 0; i < count; i++) {
    const ert_tensor *b = others[i].tensor;
    uintptr_t other = (uintptr_t)b->data;
    if (a->bytes > 0 && b->bytes > 0 && other < end && begin < other + b->bytes)
      return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, ert_format("buffers of '%.80s' and '%.80s'", a->name, b->name).s,
                      "no overlap", ert_format("%p and %p", a->data, b->data).s);
  }
  return EDGERT_OK;
}

/* Every buffer is there, and outputs overlap nothing. */
static edgert_status check_bindings(edgert_session *session) {
  const ert_plan *plan = session->plan;
  ERT_TRY(expect_bound(plan->inputs, plan->n_inputs, "input"));
  ERT_TRY(expect_bound(plan->outputs, plan->n_outputs, "output"));
  for (uint32_t i = 0; i < plan->n_outputs; i++) {
    ERT_TRY(expect_disjoint(&plan->outputs[i], plan->inputs, plan->n_inputs));
    ERT_TRY(expect_disjoint(&plan->outputs[i], plan->outputs, i));
  }
  session->checked = true;
  return EDGERT_OK;
}

/* Runs a worker's list: always the same one. */
static void work(void *context, uint32_t worker) {
  const edgert_session *session = context;
  const ert_schedule *schedule = session->schedule;
  ert_stamp *stamps = session->profile ? session->profile->stamps : NULL;
  uint8_t *scratch = session->scratch.data + worker * session->scratch_bytes;
  for (size_t i = schedule->first[worker]; i < schedule->first[worker + 1]; i++) {
    const ert_work *w = &schedule->work[i];
    if (!w->step) {
      ert_pool_barrier(session->pool, worker);
      continue;
    }
    if (stamps) stamps[i].begin_ns = ert_clock_ns();
    w->step->kernel->run(w->step, w->begin, w->end, scratch);
    if (stamps) stamps[i].end_ns = ert_clock_ns();
  }
}

edgert_status edgert_session_run(edgert_session *session) {
  if (!session->checked) ERT_TRY(check_bindings(session));
  if (session->device) ERT_TRY(ert_device_begin(session->device));
  ert_pool_run(session->pool, work, session);
  if (session->device) ERT_TRY(ert_device_end(session->device, EDGERT_OK));
  session->ran = true;
  if (session->profile) ert_profile_report(session);
  return EDGERT_OK;
}
