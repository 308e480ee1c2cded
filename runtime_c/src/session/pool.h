/* Worker threads that do one job at a time together with the calling thread. */
#ifndef ERT_SESSION_POOL_H
#define ERT_SESSION_POOL_H

#include <stdint.h>

#include "base/status.h"

typedef struct ert_pool ert_pool;

/* A share of a job: worker 0 to workers - 1; 0 is the calling thread. */
typedef void ert_job(void *context, uint32_t worker);

/* Starts workers - 1 threads (workers >= 1). They soon sleep while there is nothing to do, and at once where jobs of this
 * process want more cores than it may use. Where the caller runs is never changed. With `cpus`, one for each worker, every
 * started thread stays on its CPU; without, one that meets another worker of the pool is kept off the others' CPUs, if there
 * are cores for all. */
edgert_status ert_pool_open(uint32_t workers, const uint32_t *cpus, ert_pool **out);

/* NULL is allowed. */
void ert_pool_close(ert_pool *pool);

uint32_t ert_pool_workers(const ert_pool *pool);

/* Equals: for (worker = 0; worker < workers; worker++) job(context, worker), all of them at once. */
void ert_pool_run(ert_pool *pool, ert_job *job, void *context);

/* Within a job, by the worker of that number: returns once every worker has called it as often. What they wrote before is
 * visible then. */
void ert_pool_barrier(ert_pool *pool, uint32_t worker);

#endif
