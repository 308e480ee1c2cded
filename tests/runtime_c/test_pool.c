/* The worker pool: every worker does its share exactly once a job, and sees what came before the job or a barrier. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/cpu.h"
#include "session/pool.h"
#include "test.h"

enum { MOST_WORKERS = 9 };

typedef struct tally {
  uint32_t calls[MOST_WORKERS];
  uint64_t sum; /* written by worker 0, read by all in the next job */
  uint64_t seen[MOST_WORKERS];
} tally;

static void count(void *context, uint32_t worker) {
  tally *t = context;
  t->calls[worker]++;
  t->seen[worker] = t->sum;
}

static ert_pool *open_pool(uint32_t workers) {
  ert_pool *pool;
  CHECK(ert_pool_open(workers, NULL, &pool) == EDGERT_OK);
  CHECK(ert_pool_workers(pool) == workers);
  return pool;
}

static void every_worker_once(void) {
  for (uint32_t workers = 1; workers <= MOST_WORKERS; workers++) {
    ert_pool *pool = open_pool(workers);
    tally t = {.sum = 0};
    for (uint32_t job = 1; job <= 300; job++) {
      t.sum = job;
      ert_pool_run(pool, count, &t);
      for (uint32_t i = 0; i < workers; i++) CHECK(t.calls[i] == job && t.seen[i] == job);
    }
    ert_pool_close(pool);
  }
}

enum { ROUNDS = 200 };

/* Workers that write in turn, each reading what all wrote before the last barrier. */
typedef struct relay {
  ert_pool *pool;
  uint32_t workers;
  uint32_t written[MOST_WORKERS], mismatches[MOST_WORKERS];
  bool dawdle;
} relay;

static void pass_on(void *context, uint32_t worker) {
  relay *r = context;
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    r->written[worker] = round;
    if (r->dawdle && round % 50 == worker) usleep(1000); /* the others yield, then sleep */
    ert_pool_barrier(r->pool, worker);
    for (uint32_t i = 0; i < r->workers; i++) r->mismatches[worker] += r->written[i] != round;
    ert_pool_barrier(r->pool, worker);
  }
}

static void barriers(void) {
  for (uint32_t workers = 1; workers <= MOST_WORKERS; workers++) {
    for (int dawdle = 0; dawdle < 2; dawdle++) {
      relay r = {.pool = open_pool(workers), .workers = workers, .dawdle = dawdle == 1};
      for (int job = 0; job < 3; job++) ert_pool_run(r.pool, pass_on, &r);
      for (uint32_t i = 0; i < workers; i++) CHECK(r.written[i] == ROUNDS && r.mismatches[i] == 0);
      ert_pool_close(r.pool);
    }
  }
}

static void note_cpus(void *context, uint32_t worker) {
  cpu_set_t *allowed = context;
  CHECK(pthread_getaffinity_np(pthread_self(), sizeof *allowed, &allowed[worker]) == 0);
}

/* All workers but the caller stay where they are told to; one whose CPU does not exist is free. */
static void placed(void) {
  cpu_set_t own, found[3];
  CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
  uint32_t first = 0;
  while (!CPU_ISSET(first, &own)) first++;
  const uint32_t cpus[] = {first, first, CPU_SETSIZE + 1};
  ert_pool *pool;
  CHECK(ert_pool_open(3, cpus, &pool) == EDGERT_OK);
  ert_pool_run(pool, note_cpus, found);
  ert_pool_close(pool);
  CHECK(CPU_EQUAL(&found[0], &own) && CPU_EQUAL(&found[2], &own));
  CHECK(CPU_COUNT(&found[1]) == 1 && CPU_ISSET(first, &found[1]));
}

/* Workers that fell asleep wake up again. */
static void after_a_pause(void) {
  ert_pool *pool = open_pool(3);
  tally t = {.sum = 0};
  for (uint32_t job = 1; job <= 5; job++) {
    usleep(3000);
    ert_pool_run(pool, count, &t);
    for (uint32_t i = 0; i < 3; i++) CHECK(t.calls[i] == job);
  }
  usleep(3000);
  ert_pool_close(pool);
}

static void sleepy(void *context, uint32_t worker) {
  if (worker == 1) usleep(2000);
  count(context, worker);
}

/* The caller falls asleep too while the slowest worker is busy. */
static void a_slow_worker(void) {
  ert_pool *pool = open_pool(2);
  tally t = {.sum = 0};
  for (uint32_t job = 1; job <= 5; job++) {
    ert_pool_run(pool, sleepy, &t);
    CHECK(t.calls[0] == job && t.calls[1] == job);
  }
  ert_pool_close(pool);
}

/* Idle workers use no processor time. */
static void idle_is_free(void) {
  ert_pool *pool = open_pool(4);
  tally t = {.sum = 0};
  ert_pool_run(pool, count, &t);
  usleep(50000);
  clock_t before = clock();
  usleep(200000);
  double used = (double)(clock() - before) / CLOCKS_PER_SEC;
  CHECK(used < 0.05);
  ert_pool_close(pool);
}

enum { LONG_WAITS = 100, LONG_US = 1000 };

/* Worker 1 waits for worker 0, often and long; and how much of that it used its core, by its own clock. */
typedef struct vigil {
  ert_pool *pool;
  double used;
} vigil;

static double thread_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void keep_waiting(void *context, uint32_t worker) {
  vigil *v = context;
  double before = thread_seconds();
  for (int i = 0; i < LONG_WAITS; i++) {
    if (worker == 0) usleep(LONG_US);
    ert_pool_barrier(v->pool, worker);
  }
  if (worker == 1) v->used = thread_seconds() - before;
}

/* Spinning, even for 200 us a wait, would take 20 ms. */
static void check_sleeps(ert_pool *pool) {
  vigil v = {.pool = pool};
  ert_pool_run(pool, keep_waiting, &v);
  CHECK(v.used < 0.01);
}

static void no_core_for_each(void) {
  ert_pool *pool = open_pool(ert_cpu_cores() + 1);
  check_sleeps(pool);
  ert_pool_close(pool);
}

static void move_to(void *context, uint32_t worker) {
  (void)worker;
  CHECK(pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), context) == 0);
}

/* Two workers on one core, which the system brought about after the pool was opened. */
static void one_core_for_both(void) {
  cpu_set_t own, one;
  CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
  uint32_t first = 0;
  while (!CPU_ISSET(first, &own)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ert_pool *pool = open_pool(2);
  ert_pool_run(pool, move_to, &one);
  check_sleeps(pool);
  ert_pool_close(pool);
  move_to(&own, 0);
}

/* Up to three CPUs that this process may use, all of them and each by itself. */
typedef struct some_cpus {
  uint32_t count;
  cpu_set_t all, one[3];
} some_cpus;

/* False if there is one CPU only. */
static bool find_few(some_cpus *cpus) {
  cpu_set_t own;
  CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
  *cpus = (some_cpus){.count = 0};
  for (size_t cpu = 0; cpu < CPU_SETSIZE && cpus->count < 3; cpu++) {
    if (!CPU_ISSET(cpu, &own)) continue;
    CPU_SET(cpu, &cpus->all);
    CPU_SET(cpu, &cpus->one[cpus->count++]);
  }
  if (cpus->count < 2) printf("  skipped: this process may use one CPU only\n");
  return cpus->count > 1;
}

/* Workers 0 and 1 before and after a barrier. */
typedef struct meeting {
  ert_pool *pool;
  const cpu_set_t *place, *allowed; /* worker 1 first goes to `place` and may use `allowed` then; NULL: it stays */
  pthread_t thread;                 /* of worker 1 in the last job */
  cpu_set_t begin;                  /* its affinity when worker 0 begins */
  int cpu[2];                       /* where they are in the end */
  cpu_set_t end[2];
} meeting;

static void meet(void *context, uint32_t worker) {
  meeting *m = context;
  if (worker == 0) CHECK(pthread_getaffinity_np(m->thread, sizeof m->begin, &m->begin) == 0);
  ert_pool_barrier(m->pool, worker);
  if (worker == 1) m->thread = pthread_self();
  if (worker == 1 && m->place) {
    move_to((void *)m->place, worker);
    move_to((void *)m->allowed, worker);
  }
  ert_pool_barrier(m->pool, worker);
  if (worker > 1) return;
  m->cpu[worker] = sched_getcpu();
  note_cpus(m->end, worker);
}

static ert_pool *open_meeting(uint32_t workers, const uint32_t *cpus, const some_cpus *few, meeting *m) {
  move_to((void *)&few->all, 0);
  CHECK(ert_pool_open(workers, cpus, &m->pool) == EDGERT_OK);
  move_to((void *)&few->one[0], 0);
  m->place = &few->one[0];
  m->allowed = &few->all;
  m->thread = pthread_self();
  ert_pool_run(m->pool, meet, m);
  m->place = NULL;
  return m->pool;
}

/* Whether a worker may use all CPUs but this one. */
static bool avoids(const cpu_set_t *affinity, const some_cpus *few, uint32_t cpu) {
  cpu_set_t all;
  CPU_XOR(&all, affinity, &few->one[cpu]);
  return CPU_EQUAL(&all, &few->all) && !CPU_EQUAL(affinity, &few->all);
}

/* Not on the first thread, whose affinity is taken for the process's. */
static void *meet_and_part(void *argument) {
  const some_cpus *few = argument;
  meeting m;
  ert_pool *pool = open_meeting(2, NULL, few, &m);
  CHECK(m.cpu[0] != m.cpu[1] && avoids(&m.end[1], few, 0) && CPU_EQUAL(&m.end[0], &few->one[0]));
  for (uint32_t i = 1; i <= 4; i++) { /* with two CPUs, the caller always goes where the worker is */
    uint32_t cpu = i % few->count;
    move_to((void *)&few->one[cpu], 0);
    ert_pool_run(pool, meet, &m);
    CHECK(avoids(&m.begin, few, cpu));
    CHECK(m.cpu[0] != m.cpu[1] && avoids(&m.end[1], few, cpu) && CPU_EQUAL(&m.end[0], &few->one[cpu]));
  }
  ert_pool_close(pool);
  return NULL;
}

/* A worker leaves the CPU of the caller, at the beginning and in the middle of a job; the caller's affinity is its own. */
static void kept_apart(void) {
  some_cpus few;
  pthread_t thread;
  if (!find_few(&few)) return;
  CHECK(pthread_create(&thread, NULL, meet_and_part, &few) == 0);
  pthread_join(thread, NULL);
}

/* All threads are sent to one CPU, the one that the worker was kept on, or another. */
static void affinity_of_the_process(void) {
  cpu_set_t own;
  some_cpus few;
  CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
  if (!find_few(&few)) return;
  for (uint32_t cpu = 0; cpu < few.count; cpu++) {
    meeting m;
    ert_pool *pool = open_meeting(2, NULL, &few, &m);
    CHECK(avoids(&m.end[1], &few, 0));
    move_to(&few.one[cpu], 0);
    CHECK(pthread_setaffinity_np(m.thread, sizeof(cpu_set_t), &few.one[cpu]) == 0);
    for (int i = 0; i < 3; i++) {
      ert_pool_run(pool, meet, &m);
      CHECK(CPU_EQUAL(&m.begin, &few.one[cpu]) && CPU_EQUAL(&m.end[1], &few.one[cpu]));
    }
    ert_pool_close(pool);
  }
  move_to(&own, 0);
}

/* Workers that were given CPUs, and those of a pool that has more than there are, may meet. */
static void left_together(void) {
  cpu_set_t own;
  some_cpus few;
  CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
  if (!find_few(&few)) return;
  const uint32_t cpus[2] = {0, 0};
  for (int given = 0; given < 2; given++) {
    meeting m;
    ert_pool *pool = open_meeting(given ? 2 : few.count + 1, given ? cpus : NULL, &few, &m);
    CHECK(CPU_EQUAL(&m.end[1], &few.all));
    ert_pool_run(pool, meet, &m);
    CHECK(CPU_EQUAL(&m.begin, &few.all) && CPU_EQUAL(&m.end[1], &few.all));
    ert_pool_close(pool);
    move_to(&own, 0);
  }
}

/* A pool whose workers are at work until they are told to end. */
typedef struct company {
  atomic_uint begun;
  atomic_bool end;
} company;

static void stay(void *context, uint32_t worker) {
  company *c = context;
  (void)worker;
  atomic_fetch_add(&c->begun, 1);
  while (!atomic_load(&c->end)) usleep(1000);
}

static void *keep_company(void *argument) {
  ert_pool *pool = open_pool(ert_cpu_cores());
  ert_pool_run(pool, stay, argument);
  ert_pool_close(pool);
  return NULL;
}

/* Two pools at once, which together are too many. */
static void two_pools(void) {
  company c = {.begun = 0};
  pthread_t other;
  ert_pool *pool = open_pool(2);
  CHECK(pthread_create(&other, NULL, keep_company, &c) == 0);
  while (atomic_load(&c.begun) < ert_cpu_cores()) usleep(1000);
  check_sleeps(pool);
  atomic_store(&c.end, true);
  pthread_join(other, NULL);
  ert_pool_close(pool);
}

enum { WAITS = 10000, TRIES = 20 };

static void wait_often(void *context, uint32_t worker) {
  for (int i = 0; i < WAITS; i++) ert_pool_barrier(context, worker);
}

/* Not a check: machines differ. The best of several tries, as other processes disturb. */
static void report_times(void) {
  for (uint32_t workers = 2; workers <= 4; workers += 2) {
    ert_pool *pool = open_pool(workers);
    uint64_t job_ns = UINT64_MAX, barrier_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
      tally t = {.sum = 0};
      uint64_t begin = ert_clock_ns();
      for (int k = 0; k < WAITS / 10; k++) ert_pool_run(pool, count, &t);
      uint64_t middle = ert_clock_ns();
      ert_pool_run(pool, wait_often, pool);
      uint64_t end = ert_clock_ns();
      if (middle - begin < job_ns) job_ns = middle - begin;
      if (end - middle < barrier_ns) barrier_ns = end - middle;
    }
    const double waits = WAITS;
    printf("  %u workers: %.2f us a job, %.2f us a barrier\n", workers, (double)job_ns / waits / 100,
           (double)barrier_ns / waits / 1000);
    ert_pool_close(pool);
  }
}

int main(void) {
  RUN(every_worker_once);
  RUN(barriers);
  RUN(placed);
  RUN(after_a_pause);
  RUN(a_slow_worker);
  RUN(idle_is_free);
  RUN(no_core_for_each);
  RUN(one_core_for_both);
  RUN(kept_apart);
  RUN(affinity_of_the_process);
  RUN(left_together);
  RUN(two_pools);
  RUN(report_times);
  return 0;
}
