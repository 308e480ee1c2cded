/* Threads, and a gate at which some wait until another opens it. */
#ifndef ERT_PLATFORM_THREAD_H
#define ERT_PLATFORM_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Starts a thread that runs main(argument) with all signals blocked. THREAD on failure. */
edgert_status ert_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

/* Keeps a thread on one CPU from now on, if the system allows it. */
void ert_thread_pin(pthread_t thread, uint32_t cpu);

/* Where a thread may run, zero-initialised. */
typedef struct ert_confinement {
  cpu_set_t allowed; /* as others set its affinity */
  cpu_set_t kept;    /* the part of it that the thread was confined to; empty if it never was */
} ert_confinement;

/* Confines a thread to those of its allowed CPUs that are not `taken`: if it is on another, the system moves it at once, and
 * wakes it up on these from now on. Leaves it as it is if it is allowed fewer CPUs than `least`, or none but those taken.
 * An affinity that others set meanwhile, such as by `taskset -a`, is what is allowed. */
void ert_thread_avoid(pthread_t thread, const cpu_set_t *taken, uint32_t least, ert_confinement *confinement);

/* A counter that threads wait on, zero-initialised: opening the gate increments it. A waiter spins for a while, then
 * sleeps: so a wait that the other side soon ends is short, and a long one is free. Nobody yields: the scheduler would let
 * whoever else wants the core, however unimportant, have it for milliseconds. */
typedef struct ert_gate {
  _Alignas(64) atomic_uint count;
  atomic_uint sleepers;
} ert_gate;

/* What the caller wrote before is visible to those that pass. */
void ert_gate_open(ert_gate *gate);

/* How often it was opened. */
static inline unsigned ert_gate_count(ert_gate *gate) {
  return atomic_load_explicit(&gate->count, memory_order_relaxed);
}

/* Returns once the count differs from `seen`, and what it is. `spin`: whether the awaited threads may have cores of their
 * own; else the caller sleeps, which leaves them this one. */
unsigned ert_gate_wait(ert_gate *gate, unsigned seen, bool spin);

#endif
