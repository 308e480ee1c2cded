/* Making the workers' lists: walked through once to count, and once more to fill them. */
#include "session/schedule.h"

#include "base/checked.h"

/* Whose work something is: a worker's number, or one of these. */
enum { NOBODY = -1, SEVERAL = -2 };

static int join(int a, int b) { return a == NOBODY ? b : b == NOBODY || a == b ? a : SEVERAL; }

/* The lists under construction. */
typedef struct lists {
  uint32_t workers;
  ert_work *work; /* NULL: only count */
  size_t *next;   /* of each worker: where its next entry goes; how many it has, while counting */
} lists;

static void add(lists *l, uint32_t worker, const ert_step *step, int64_t begin, int64_t end) {
  size_t at = l->next[worker]++;
  if (l->work) l->work[at] = (ert_work){step, begin, end};
}

static int owner(const ert_step *step, ert_turn turn, uint32_t workers) {
  if (step->tasks == 0) return NOBODY;
  if (turn.core != ERT_ALL_CORES) return (int)ert_turn_worker(turn, workers);
  return step->tasks == 1 || workers == 1 ? 0 : SEVERAL;
}

static void add_step(lists *l, const ert_step *step, ert_turn turn) {
  if (turn.core != ERT_ALL_CORES) {
    if (step->tasks > 0) add(l, ert_turn_worker(turn, l->workers), step, 0, step->tasks);
    return;
  }
  const int64_t tasks = ert_round_tasks(step);
  const int64_t each = tasks / l->workers, more = tasks % l->workers; /* the first `more` workers take one more */
  int64_t begin = 0;
  for (uint32_t worker = 0; worker < l->workers; worker++) {
    int64_t end = begin + each + (worker < more);
    if (begin < end || step->rounds > 0) add(l, worker, step, begin, end);
    begin = end;
  }
}

static void add_all(lists *l, const ert_plan *plan) {
  int since = NOBODY; /* whose work there was since the workers last waited for each other */
  for (uint32_t i = 0, end; i < plan->n_steps; i = end) {
    int phase = NOBODY;
    for (end = i; end < plan->n_steps && plan->turns[end].phase == plan->turns[i].phase; end++)
      phase = join(phase, owner(&plan->steps[end], plan->turns[end], l->workers));
    bool wait = since != NOBODY && phase != NOBODY && join(since, phase) == SEVERAL;
    for (uint32_t worker = 0; wait && worker < l->workers; worker++) add(l, worker, NULL, 0, 0);
    since = wait ? phase : join(since, phase);
    for (uint32_t k = i; k < end; k++) add_step(l, &plan->steps[k], plan->turns[k]);
  }
}

edgert_status ert_schedule_open(const ert_plan *plan, uint32_t workers, ert_room *room, ert_schedule **out) {
  *out = NULL;
  void *memory, *entries;
  ERT_TRY(ert_room_take(room, sizeof(ert_schedule) + (workers + 1) * sizeof(size_t), "schedule of a program", &memory));
  ert_schedule *schedule = memory;
  *schedule = (ert_schedule){.first = (void *)(schedule + 1)};
  lists l = {.workers = workers, .next = schedule->first};
  add_all(&l, plan);
  size_t total = 0;
  for (uint32_t worker = 0; worker <= workers; worker++) {
    size_t count = schedule->first[worker];
    schedule->first[worker] = total;
    total += count;
  }
  size_t bytes;
  if (!ert_multiply(total, sizeof(ert_work), &bytes)) bytes = SIZE_MAX; /* which the allocation refuses */
  ERT_TRY(ert_room_take(room, bytes, "schedule of a program", &entries));
  l.work = schedule->work = entries;
  add_all(&l, plan);
  for (uint32_t worker = workers; worker > 0; worker--) schedule->first[worker] = schedule->first[worker - 1];
  schedule->first[0] = 0;
  *out = schedule;
  return EDGERT_OK;
}
