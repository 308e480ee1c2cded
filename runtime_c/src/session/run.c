/* Running the steps. */
#include "platform/clock.h"
#include "session/session.h"

/* Runs tasks of a step, in all its rounds. */
static void run_tasks(ert_pool *pool, uint32_t worker, const ert_work *w, void *scratch) {
  const ert_step *step = w->step;
  const int64_t tasks = ert_round_tasks(step);
  step->kernel->run(step, w->begin, w->end, scratch);
  for (int64_t round = 1; round < step->rounds; round++) {
    ert_pool_barrier(pool, worker);
    step->kernel->run(step, w->begin + round * tasks, w->end + round * tasks, scratch);
  }
}

/* Runs a worker's list: always the same one. */
static void work(void *context, uint32_t worker) {
  const edgert_session *session = context;
  const ert_schedule *schedule = session->schedule;
  ert_stamp *stamps = session->profile ? session->profile->stamps : NULL;
  uint8_t *scratch = session->scratch + worker * session->scratch_bytes;
  for (size_t i = schedule->first[worker]; i < schedule->first[worker + 1]; i++) {
    const ert_work *w = &schedule->work[i];
    if (!w->step) {
      ert_pool_barrier(session->pool, worker);
      continue;
    }
    if (stamps) stamps[i].begin_ns = ert_clock_ns();
    run_tasks(session->pool, worker, w, scratch);
    if (stamps) stamps[i].end_ns = ert_clock_ns();
  }
}

/* Copies of inputs on the device that steps of the processor read, or of outputs that they wrote. */
static edgert_status fetch_inputs(const edgert_session *session) {
  const ert_plan *plan = session->plan;
  for (uint32_t i = 0; i < plan->n_inputs; i++) {
    const ert_binding *b = &plan->inputs[i];
    if (b->mirrored)
      ERT_TRY(ert_device_fetch(session->device, b->mirror, b->address, b->tensor->bytes, b->tensor->name));
  }
  return EDGERT_OK;
}

static edgert_status store_outputs(const edgert_session *session) {
  const ert_plan *plan = session->plan;
  for (uint32_t i = 0; i < plan->n_outputs; i++) {
    const ert_binding *b = &plan->outputs[i];
    if (b->mirrored)
      ERT_TRY(ert_device_store(session->device, b->address, b->mirror, b->tensor->bytes, b->tensor->name));
  }
  return EDGERT_OK;
}

static edgert_status run_on_device(edgert_session *session, void *stream, bool wait) {
  ERT_TRY(ert_device_begin(session->device, stream));
  edgert_status status = fetch_inputs(session);
  if (status == EDGERT_OK) {
    ert_pool_run(session->pool, work, session);
    status = store_outputs(session);
  }
  return ert_device_end(session->device, wait, status);
}

static edgert_status finish(edgert_session *session) {
  session->ran = true;
  if (session->profile) ert_profile_report(session);
  return EDGERT_OK;
}

edgert_status edgert_session_run(edgert_session *session) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_session_check_bindings(session));
  if (session->device)
    ERT_TRY(run_on_device(session, ert_device_stream(session->device), true));
  else
    ert_pool_run(session->pool, work, session);
  return finish(session);
}

static edgert_status expect_device(const edgert_session *session) {
  if (session->device) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "session", "one that uses a device",
                  ert_format("a program for the processor, '%.80s'", session->target).s);
}

edgert_status edgert_session_run_async(edgert_session *session, void *stream) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(expect_device(session));
  ERT_TRY(ert_session_check_bindings(session));
  ERT_TRY(run_on_device(session, stream, false));
  return finish(session);
}

edgert_status edgert_session_order(edgert_session *session, void *before, void *after) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(expect_device(session));
  return ert_device_order(session->device, before, after);
}
