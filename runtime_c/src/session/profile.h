/* When each step of a run began and ended. */
#ifndef ERT_SESSION_PROFILE_H
#define ERT_SESSION_PROFILE_H

#include "edgert/edgert.h"

/* Of the monotonic clock, nanoseconds. */
typedef struct ert_stamp {
  uint64_t begin_ns, end_ns;
} ert_stamp;

/* From the first begin of a step's work to the last end, and the work of all threads in it. */
typedef struct ert_step_time {
  uint64_t begin_ns, end_ns, busy_ns;
} ert_step_time;

typedef struct ert_profile {
  edgert_profile_hook hook;
  void *user;
  ert_stamp *stamps;    /* of every entry of the schedule; each worker writes those of its own */
  ert_step_time *spans; /* of every step */
} ert_profile;

/* Calls the session's hook for every step of the run that has just ended. */
void ert_profile_report(const edgert_session *session);

#endif
