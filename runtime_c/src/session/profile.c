/* When each step of a run began and ended: stamps by the workers, one event a step afterwards. */
#include "base/alloc.h"
#include "session/session.h"

edgert_status edgert_session_profile(edgert_session *session, edgert_profile_hook hook, void *user) {
  ERT_TRY(ert_expect(session, "session"));
  ert_free(session->profile);
  session->profile = NULL;
  if (session->device) ert_device_stepwise(session->device, hook != NULL);
  if (!hook) return EDGERT_OK;
  const ert_schedule *schedule = session->schedule;
  size_t entries = schedule->first[ert_pool_workers(session->pool)], steps = session->plan->n_steps;
  void *memory;
  size_t bytes = sizeof(ert_profile) + entries * sizeof(ert_stamp) + steps * sizeof(ert_step_time);
  ERT_TRY(ert_allocate(bytes, "times of the steps", &memory));
  ert_profile *profile = session->profile = memory;
  *profile = (ert_profile){.hook = hook, .user = user, .stamps = (void *)(profile + 1)};
  profile->spans = (void *)(profile->stamps + entries);
  return EDGERT_OK;
}

/* {UINT64_MAX, 0, 0} for a step without any work. */
static void find_spans(const edgert_session *session) {
  const ert_schedule *schedule = session->schedule;
  ert_step_time *spans = session->profile->spans;
  for (uint32_t i = 0; i < session->plan->n_steps; i++) spans[i] = (ert_step_time){UINT64_MAX, 0, 0};
  for (size_t i = 0; i < schedule->first[ert_pool_workers(session->pool)]; i++) {
    if (!schedule->work[i].step) continue;
    ert_stamp stamp = session->profile->stamps[i];
    ert_step_time *span = &spans[schedule->work[i].step->index];
    span->busy_ns += stamp.end_ns - stamp.begin_ns;
    if (stamp.begin_ns < span->begin_ns) span->begin_ns = stamp.begin_ns;
    if (stamp.end_ns > span->end_ns) span->end_ns = stamp.end_ns;
  }
}

void ert_profile_report(const edgert_session *session) {
  const ert_plan *plan = session->plan;
  const ert_profile *profile = session->profile;
  uint64_t last = 0;
  find_spans(session);
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    ert_step_time span = profile->spans[i];
    bool idle = span.end_ns == 0;
    if (!idle && span.end_ns > last) last = span.end_ns;
    edgert_step_event event = {
        .step = i,
        .core = plan->turns[i].core,
        .kernel = plan->steps[i].kernel->name,
        .node = plan->steps[i].node,
        .begin_ns = idle ? last : span.begin_ns,
        .end_ns = idle ? last : span.end_ns,
        .busy_ns = span.busy_ns,
    };
    profile->hook(profile->user, &event);
  }
}
