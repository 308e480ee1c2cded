/* The worker pool: every worker does its share exactly once a job, and jobs see what came before. */
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"
#include "session/pool.h"
#include "test.h"

enum { MOST_WORKERS = 9 };

typedef struct tally {
  uint32_t calls[MOST_WORKERS], workers;
  uint64_t sum; /* written by worker 0, read by all in the next job */
  uint64_t seen[MOST_WORKERS];
} tally;

static void count(void *context, uint32_t worker, uint32_t workers) {
  tally *t = context;
  t->calls[worker]++;
  t->seen[worker] = t->sum;
  if (worker == 0) t->workers = workers;
}

static void every_worker_once(void) {
  for (uint32_t workers = 1; workers <= MOST_WORKERS; workers++) {
    ert_pool *pool;
    CHECK(ert_pool_open(workers, &pool) == EDGERT_OK);
    CHECK(ert_pool_workers(pool) == workers);
    tally t = {.workers = 0};
    for (uint32_t job = 1; job <= 300; job++) {
      t.sum = job;
      ert_pool_run(pool, count, &t);
      CHECK(t.workers == workers);
      for (uint32_t i = 0; i < workers; i++) CHECK(t.calls[i] == job && t.seen[i] == job);
    }
    ert_pool_close(pool);
  }
}

/* Workers that fell asleep wake up again. */
static void after_a_pause(void) {
  ert_pool *pool;
  CHECK(ert_pool_open(3, &pool) == EDGERT_OK);
  tally t = {.workers = 0};
  for (uint32_t job = 1; job <= 5; job++) {
    usleep(3000);
    ert_pool_run(pool, count, &t);
    for (uint32_t i = 0; i < 3; i++) CHECK(t.calls[i] == job);
  }
  usleep(3000);
  ert_pool_close(pool);
}

static void sleepy(void *context, uint32_t worker, uint32_t workers) {
  (void)workers;
  if (worker == 1) usleep(2000);
  count(context, worker, workers);
}

/* The caller falls asleep too while the slowest worker is busy. */
static void a_slow_worker(void) {
  ert_pool *pool;
  CHECK(ert_pool_open(2, &pool) == EDGERT_OK);
  tally t = {.workers = 0};
  for (uint32_t job = 1; job <= 5; job++) {
    ert_pool_run(pool, sleepy, &t);
    CHECK(t.calls[0] == job && t.calls[1] == job);
  }
  ert_pool_close(pool);
}

/* Idle workers use no processor time. */
static void idle_is_free(void) {
  ert_pool *pool;
  CHECK(ert_pool_open(4, &pool) == EDGERT_OK);
  tally t = {.workers = 0};
  ert_pool_run(pool, count, &t);
  usleep(50000);
  clock_t before = clock();
  usleep(200000);
  double used = (double)(clock() - before) / CLOCKS_PER_SEC;
  CHECK(used < 0.05);
  ert_pool_close(pool);
}

/* Not a check: machines differ. */
static void report_barrier(void) {
  for (uint32_t workers = 2; workers <= 4; workers += 2) {
    enum { JOBS = 20000 };
    ert_pool *pool;
    CHECK(ert_pool_open(workers, &pool) == EDGERT_OK);
    tally t = {.workers = 0};
    for (int i = 0; i < 100; i++) ert_pool_run(pool, count, &t);
    uint64_t begin = ert_clock_ns();
    for (int i = 0; i < JOBS; i++) ert_pool_run(pool, count, &t);
    printf("  %u workers: %.2f us a job\n", workers, (double)((ert_clock_ns() - begin) / JOBS) / 1000);
    ert_pool_close(pool);
  }
}

int main(void) {
  RUN(every_worker_once);
  RUN(after_a_pause);
  RUN(a_slow_worker);
  RUN(idle_is_free);
  RUN(report_barrier);
  return 0;
}
