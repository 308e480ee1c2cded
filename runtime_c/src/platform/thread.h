/* Threads, and a gate at which some wait until another opens it. */
#ifndef ERT_PLATFORM_THREAD_H
#define ERT_PLATFORM_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Starts a thread that runs main(argument) with all signals blocked. THREAD on failure. */
edgert_status ert_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

/* Keeps a thread on one CPU from now on, if the system allows it. */
void ert_thread_pin(pthread_t thread, uint32_t cpu);

/* A counter that threads wait on: opening the gate increments it. A waiter spins, then yields its core, then sleeps, so
 * a wait is short to answer when another thread runs, and free when none does for long. */
typedef struct ert_gate {
  _Alignas(64) atomic_uint count;
  atomic_uint sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t opened;
} ert_gate;

/* THREAD on failure. */
edgert_status ert_gate_init(ert_gate *gate);
void ert_gate_destroy(ert_gate *gate);

/* What the caller wrote before is visible to those that pass. */
void ert_gate_open(ert_gate *gate);

/* How often it was opened. */
static inline unsigned ert_gate_count(ert_gate *gate) {
  return atomic_load_explicit(&gate->count, memory_order_relaxed);
}

/* Returns once the count differs from `seen`, and what it is. `spin`: whether the awaited thread may have a core. */
unsigned ert_gate_wait(ert_gate *gate, unsigned seen, bool spin);

#endif
