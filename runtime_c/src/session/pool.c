/* Worker threads: a gate that starts a job, and a barrier, at the end of which the caller waits too. */
#include "session/pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "platform/cpu.h"
#include "platform/thread.h"

typedef struct member {
  _Alignas(64) atomic_int cpu; /* where it was when it last had to wait or began a job */
  ert_pool *pool;
  uint32_t index;
  pthread_t thread;            /* this and what follows: not of worker 0 */
  ert_confinement confinement; /* the worker's own within a job, the caller's between jobs */
} member;

struct ert_pool {
  ert_gate start, pass;
  _Alignas(64) atomic_uint arrived; /* workers at the barrier, which the last one opens */
  _Alignas(64) uint32_t count;      /* workers, the caller included */
  atomic_uint cores;                /* that this process may use */
  bool pinned;                      /* every worker stays on the CPU that it was given */
  bool stop;
  ert_job *job; /* this and what follows is written before `start` opens */
  void *context;
  member workers[];
};

/* Workers that have a job, of all pools of this process. */
static atomic_uint busy;

/* Notes where the calling worker runs. */
static int note_cpu(member *self) {
  int cpu = sched_getcpu();
  if (cpu != atomic_load_explicit(&self->cpu, memory_order_relaxed))
    atomic_store_explicit(&self->cpu, cpu, memory_order_relaxed);
  return cpu;
}

/* Whether there are cores for all workers of this process that have a job. */
static bool enough_cores(const ert_pool *pool) {
  return atomic_load_explicit(&busy, memory_order_relaxed) <= atomic_load_explicit(&pool->cores, memory_order_relaxed);
}

/* Whether another worker of the pool was last seen where this one was. */
static bool meets_other(const member *self) {
  const ert_pool *pool = self->pool;
  int cpu = atomic_load_explicit(&self->cpu, memory_order_relaxed);
  for (uint32_t i = 0; i < pool->count; i++)
    if (i != self->index && atomic_load_explicit(&pool->workers[i].cpu, memory_order_relaxed) == cpu) return true;
  return false;
}

/* Keeps a started worker off the CPUs where the others were last seen. */
static void keep_apart(member *w) {
  const ert_pool *pool = w->pool;
  cpu_set_t taken;
  CPU_ZERO(&taken);
  for (uint32_t i = 0; i < pool->count; i++) {
    int cpu = atomic_load_explicit(&pool->workers[i].cpu, memory_order_relaxed);
    if (i != w->index && cpu >= 0) CPU_SET((size_t)cpu, &taken);
  }
  ert_thread_avoid(w->thread, &taken, pool->count, &w->confinement);
}

/* Called where the calling worker begins a job or has to wait for others: whether it has its core to itself, so that it may
 * spin. If it meets another worker there, it goes elsewhere. The system itself would not part the two: where other
 * processes want the cores, too, it tends to wake a thread on the CPU of the one that wakes it, and as they take turns from
 * then on it never sees that both want to run. */
static bool has_core(member *self) {
  const ert_pool *pool = self->pool;
  note_cpu(self);
  if (!enough_cores(pool)) return false;
  if (!meets_other(self)) return true;
  if (pool->pinned || self->index == 0) return false;
  keep_apart(self);
  note_cpu(self);
  return !meets_other(self);
}

static void arrive(ert_pool *pool) {
  if (atomic_fetch_add(&pool->arrived, 1) + 1 < pool->count) return;
  atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed); /* nobody comes again before the gate opens */
  ert_gate_open(&pool->pass);
}

void ert_pool_barrier(ert_pool *pool, uint32_t worker) {
  unsigned seen = ert_gate_count(&pool->pass); /* it stays closed until this worker has arrived */
  bool spin = has_core(&pool->workers[worker]);
  arrive(pool);
  ert_gate_wait(&pool->pass, seen, spin);
}

/* To ask for the cgroup's share of them takes some 50 us, which a worker has after its first job: mostly that of opening a
 * session, which does not run at once. */
static void limit_cores(ert_pool *pool) {
  const uint32_t allowed = atomic_load_explicit(&pool->cores, memory_order_relaxed);
  atomic_store_explicit(&pool->cores, ert_cgroup_cores("", allowed), memory_order_relaxed);
}

static void *work(void *argument) {
  member *self = argument;
  ert_pool *pool = self->pool;
  unsigned started = 0;
  note_cpu(self);
  for (bool spin = false, first = true;; first = false) {
    started = ert_gate_wait(&pool->start, started, spin);
    if (pool->stop) return NULL;
    (void)has_core(self);
    pool->job(pool->context, self->index);
    spin = has_core(self);
    arrive(pool);
    if (first && self->index == 1) limit_cores(pool);
  }
}

static edgert_status start_workers(ert_pool *pool, uint32_t workers, const uint32_t *cpus) {
  for (uint32_t i = 1; i < workers; i++) {
    member *w = &pool->workers[i];
    ERT_TRY(ert_thread_start(&w->thread, work, w));
    if (cpus) ert_thread_pin(w->thread, cpus[i]);
    pool->count = i + 1;
  }
  return EDGERT_OK;
}

edgert_status ert_pool_open(uint32_t workers, const uint32_t *cpus, ert_pool **out) {
  *out = NULL;
  void *memory;
  ERT_TRY(ert_allocate(sizeof(ert_pool) + workers * sizeof(member), "worker threads", &memory));
  ert_pool *pool = memory;
  pool->count = 1;
  atomic_init(&pool->cores, workers > 1 ? ert_cpu_allowed() : 1);
  pool->pinned = cpus != NULL;
  for (uint32_t i = 0; i < workers; i++) {
    pool->workers[i].pool = pool;
    pool->workers[i].index = i;
    atomic_init(&pool->workers[i].cpu, -1);
  }
  edgert_status status = start_workers(pool, workers, cpus);
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
  for (uint32_t i = 1; i < pool->count; i++) pthread_join(pool->workers[i].thread, NULL);
  ert_free(pool);
}

/* Before a job: a worker that would wake up behind the caller goes elsewhere, and those that keep off the CPU where the caller
 * was keep off the one where it is. */
static void place_workers(ert_pool *pool) {
  int before = atomic_load_explicit(&pool->workers[0].cpu, memory_order_relaxed), cpu = note_cpu(&pool->workers[0]);
  if (pool->pinned || !enough_cores(pool)) return;
  for (uint32_t i = 1; i < pool->count; i++) {
    member *w = &pool->workers[i];
    int seen = atomic_load_explicit(&w->cpu, memory_order_relaxed);
    bool met = seen == cpu || seen < 0;
    if (met || (cpu != before && CPU_COUNT(&w->confinement.kept) > 0)) keep_apart(w);
  }
}

uint32_t ert_pool_workers(const ert_pool *pool) { return pool->count; }

void ert_pool_run(ert_pool *pool, ert_job *job, void *context) {
  atomic_fetch_add(&busy, pool->count);
  pool->job = job;
  pool->context = context;
  if (pool->count > 1) {
    place_workers(pool);
    ert_gate_open(&pool->start);
  }
  job(context, 0);
  if (pool->count > 1) ert_pool_barrier(pool, 0);
  atomic_fetch_sub(&busy, pool->count);
}
