/* Which worker runs what, in which order: a flat list each, made when a session is opened. */
#ifndef ERT_SESSION_SCHEDULE_H
#define ERT_SESSION_SCHEDULE_H

#include "session/plan.h"

/* Tasks [begin, end) of a step, and where it has rounds, of its first one: all workers have an entry for such a step. Or,
 * without a step, to wait until every worker is here. */
typedef struct ert_work {
  const ert_step *step;
  int64_t begin, end;
} ert_work;

typedef struct ert_schedule {
  ert_work *work; /* of all workers, one after the other */
  size_t *first;  /* where the list of each worker begins; and the end */
} ert_schedule;

/* The worker of a step's turn among `workers`: cores are dealt to them in turn. Not for ERT_ALL_CORES. */
static inline uint32_t ert_turn_worker(ert_turn turn, uint32_t workers) { return turn.core % workers; }

/* Makes the lists for a plan whose steps are prepared; in the room. A step of all cores is cut into equal
 * contiguous parts. Between phases the workers wait for each other, unless one and the same has all the work since they
 * last did and until they will next. */
edgert_status ert_schedule_open(const ert_plan *plan, uint32_t workers, ert_room *room, ert_schedule **out);

#endif
