/* Worker threads: a gate that starts a job, and a barrier, at the end of which the caller waits too. */
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
  ert_gate start, pass;
  _Alignas(64) atomic_uint arrived; /* workers at the barrier, which the last one opens */
  _Alignas(64) uint32_t workers;    /* that run, the caller included */
  bool spin, stop;
  ert_job *job; /* this and what follows is written before `start` opens */
  void *context;
  worker others[];
};

static void arrive(ert_pool *pool) {
  if (atomic_fetch_add(&pool->arrived, 1) + 1 < pool->workers) return;
  atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed); /* nobody comes again before the gate opens */
  ert_gate_open(&pool->pass);
}

void ert_pool_barrier(ert_pool *pool) {
  unsigned seen = ert_gate_count(&pool->pass); /* it stays closed until this worker has arrived */
  arrive(pool);
  ert_gate_wait(&pool->pass, seen, pool->spin);
}

static void *work(void *argument) {
  const worker *self = argument;
  ert_pool *pool = self->pool;
  unsigned started = 0;
  for (;;) {
    started = ert_gate_wait(&pool->start, started, pool->spin);
    if (pool->stop) return NULL;
    pool->job(pool->context, self->index);
    arrive(pool);
  }
}

static edgert_status start_workers(ert_pool *pool, uint32_t workers, const uint32_t *cpus) {
  for (uint32_t i = 1; i < workers; i++) {
    worker *w = &pool->others[i - 1];
    *w = (worker){.pool = pool, .index = i};
    ERT_TRY(ert_thread_start(&w->thread, work, w));
    if (cpus) ert_thread_pin(w->thread, cpus[i]);
    pool->workers = i + 1;
  }
  return EDGERT_OK;
}

static edgert_status init_gates(ert_pool *pool) {
  ERT_TRY(ert_gate_init(&pool->start));
  edgert_status status = ert_gate_init(&pool->pass);
  if (status != EDGERT_OK) ert_gate_destroy(&pool->start);
  return status;
}

edgert_status ert_pool_open(uint32_t workers, const uint32_t *cpus, ert_pool **out) {
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
  status = start_workers(pool, workers, cpus);
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
  ert_gate_destroy(&pool->pass);
  ert_gate_destroy(&pool->start);
  ert_free(pool);
}

uint32_t ert_pool_workers(const ert_pool *pool) { return pool->workers; }

void ert_pool_run(ert_pool *pool, ert_job *job, void *context) {
  pool->job = job;
  pool->context = context;
  if (pool->workers > 1) ert_gate_open(&pool->start);
  job(context, 0);
  if (pool->workers > 1) ert_pool_barrier(pool);
}
