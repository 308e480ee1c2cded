/* Threads, and a gate at which some wait until another opens it. */
#include "platform/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "base/fault.h"
#include "platform/clock.h"

enum { PAUSES_BETWEEN_CLOCKS = 32, SPIN_NS = 2000, YIELD_NS = 200000 };

static inline void pause_core(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); /* waits some 10 ns, where `yield` does nothing */
#endif
}

edgert_status ert_thread_start(pthread_t *thread, void *(*main)(void *), void *argument) {
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  int error = ert_fault(ERT_OPERATION_THREAD) ? EAGAIN : pthread_create(thread, NULL, main, argument);
  pthread_sigmask(SIG_SETMASK, &previous, NULL);
  return error ? ert_fail(EDGERT_ERROR_THREAD, NULL, NULL, strerror(error)) : EDGERT_OK;
}

void ert_thread_pin(pthread_t thread, uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(thread, sizeof set, &set); /* an empty set, or a CPU that went away: it stays free */
}

edgert_status ert_gate_init(ert_gate *gate) {
  atomic_init(&gate->count, 0);
  atomic_init(&gate->sleepers, 0);
  int error = pthread_mutex_init(&gate->mutex, NULL);
  if (!error) {
    error = pthread_cond_init(&gate->opened, NULL);
    if (error) pthread_mutex_destroy(&gate->mutex);
  }
  return error ? ert_fail(EDGERT_ERROR_THREAD, NULL, NULL, strerror(error)) : EDGERT_OK;
}

void ert_gate_destroy(ert_gate *gate) {
  pthread_cond_destroy(&gate->opened);
  pthread_mutex_destroy(&gate->mutex);
}

void ert_gate_open(ert_gate *gate) {
  /* In sequential order with the sleeper's announcement and its look at the count: one of both sees the other. */
  atomic_fetch_add(&gate->count, 1);
  if (atomic_load(&gate->sleepers) == 0) return;
  pthread_mutex_lock(&gate->mutex);
  pthread_cond_broadcast(&gate->opened);
  pthread_mutex_unlock(&gate->mutex);
}

unsigned ert_gate_wait(ert_gate *gate, unsigned seen, bool spin) {
  unsigned count = atomic_load_explicit(&gate->count, memory_order_acquire);
  if (count != seen) return count;
  uint64_t begin = ert_clock_ns(), waited = 0;
  while (waited < YIELD_NS) {
    if (spin && waited < SPIN_NS) {
      for (int i = 0; i < PAUSES_BETWEEN_CLOCKS; i++) {
        pause_core();
        count = atomic_load_explicit(&gate->count, memory_order_acquire);
        if (count != seen) return count;
      }
    } else {
      sched_yield();
      count = atomic_load_explicit(&gate->count, memory_order_acquire);
      if (count != seen) return count;
    }
    waited = ert_clock_ns() - begin;
  }
  pthread_mutex_lock(&gate->mutex);
  atomic_fetch_add(&gate->sleepers, 1);
  while ((count = atomic_load(&gate->count)) == seen) pthread_cond_wait(&gate->opened, &gate->mutex);
  atomic_fetch_sub(&gate->sleepers, 1);
  pthread_mutex_unlock(&gate->mutex);
  return count;
}
