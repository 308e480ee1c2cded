/* Worker threads: two gates, one that starts a job and one that ends it. */
#include "session/pool.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "platform/cpu.h"
#include "platform/thread.h"

typedef struct worker {
  ert_pool *pool;
  uint32_t index;
  pthread_t thread;
} worker;

struct ert_pool {
  ert_gate start, end;
  atomic_uint pending; /* workers that are not done with the job */
  unsigned ended;      /* the count of `end` after the last job */
  uint32_t workers;    /* that run, the caller included */
  bool spin, stop;
  ert_job *job; /* this and what follows is written before `start` opens */
  void *context;
  worker others[];
};

static void *work(void *argument) {
  const worker *self = argument;
  ert_pool *pool = self->pool;
  unsigned started = 0;
  for (;;) {
    started = ert_gate_wait(&pool->start, started, pool->spin);
    if (pool->stop) return NULL;
    pool->job(pool->context, self->index, pool->workers);
    if (atomic_fetch_sub(&pool->pending, 1) == 1) ert_gate_open(&pool->end);
  }
}

static edgert_status start_workers(ert_pool *pool, uint32_t workers) {
  for (uint32_t i = 1; i < workers; i++) {
    worker *w = &pool->others[i - 1];
    *w = (worker){.pool = pool, .index = i};
    ERT_TRY(ert_thread_start(&w->thread, work, w));
    pool->workers = i + 1;
  }
  return EDGERT_OK;
}

static edgert_status init_gates(ert_pool *pool) {
  ERT_TRY(ert_gate_init(&pool->start));
  edgert_status status = ert_gate_init(&pool->end);
  if (status != EDGERT_OK) ert_gate_destroy(&pool->start);
  return status;
}

edgert_status ert_pool_open(uint32_t workers, ert_pool **out) {
  *out = NULL;
  void *memory;
  ERT_TRY(ert_allocate(sizeof(ert_pool) + (workers - 1) * sizeof(worker), "worker threads", &memory));
  ert_pool *pool = memory;
  pool->workers = 1;
  pool->spin = workers <= ert_cpu_cores();
  edgert_status status = init_gates(pool);
  if (status != EDGERT_OK) {
    ert_free(pool);
    return status;
  }
  status = start_workers(pool, workers);
  if (status != EDGERT_OK) {
    ert_pool_close(pool);
    return status;
  }
  *out = pool;
  return EDGERT_OK;
}

void ert_pool_close(ert_pool *pool) {
  if (!pool) return;
  pool->stop = true;
  ert_gate_open(&pool->start);
  for (uint32_t i = 1; i < pool->workers; i++) pthread_join(pool->others[i - 1].thread, NULL);
  ert_gate_destroy(&pool->end);
  ert_gate_destroy(&pool->start);
  ert_free(pool);
}

uint32_t ert_pool_workers(const ert_pool *pool) { return pool->workers; }

void ert_pool_run(ert_pool *pool, ert_job *job, void *context) {
  if (pool->workers > 1) {
    pool->job = job;
    pool->context = context;
    atomic_store(&pool->pending, pool->workers - 1);
    ert_gate_open(&pool->start);
  }
  job(context, 0, pool->workers);
  if (pool->workers > 1) pool->ended = ert_gate_wait(&pool->end, pool->ended, pool->spin);
}
