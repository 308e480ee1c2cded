/* Threads, and a gate at which some wait until another opens it. */
#include "platform/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "platform/clock.h"

/* To wake a sleeper takes some 20 to 60 us: longer waits than a few times that need not be spun. */
enum { LOOKS = 32, SPIN_NS = 200000 };

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

/* Whether others set the affinity of a thread, which is `now`, since it was confined. If that is what it was confined to,
 * only the affinity of the process's first thread tells: who means the process sets all. */
static bool set_by_others(const cpu_set_t *now, const ert_confinement *confinement) {
  cpu_set_t first;
  if (!CPU_EQUAL(now, &confinement->kept)) return true;
  return sched_getaffinity(getpid(), sizeof first, &first) == 0 && CPU_EQUAL(now, &first);
}

void ert_thread_avoid(pthread_t thread, const cpu_set_t *taken, uint32_t least, ert_confinement *confinement) {
  cpu_set_t now, rest;
  if (pthread_getaffinity_np(thread, sizeof now, &now) != 0) return;
  if (set_by_others(&now, confinement)) confinement->allowed = now;
  CPU_AND(&rest, &confinement->allowed, taken);
  CPU_XOR(&rest, &rest, &confinement->allowed);
  if (CPU_COUNT(&confinement->allowed) < (int)least || CPU_COUNT(&rest) == 0) return;
  if (pthread_setaffinity_np(thread, sizeof rest, &rest) == 0) confinement->kept = rest;
}

void ert_gate_open(ert_gate *gate) {
  /* In sequential order with the sleeper's announcement and the kernel's look at the count: one of both sees the other. */
  atomic_fetch_add(&gate->count, 1);
  if (atomic_load(&gate->sleepers) > 0)
    (void)syscall(SYS_futex, &gate->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Whether the count differs from `seen`, looked at some times; *count is what it is. */
static bool passes(ert_gate *gate, unsigned seen, unsigned *count) {
  for (int i = 0; i < LOOKS; i++) {
    *count = atomic_load_explicit(&gate->count, memory_order_acquire);
    if (*count != seen) return true;
    pause_core();
  }
  return false;
}

unsigned ert_gate_wait(ert_gate *gate, unsigned seen, bool spin) {
  unsigned count;
  if (passes(gate, seen, &count)) return count;
  for (uint64_t begin = ert_clock_ns(); spin && ert_clock_ns() - begin < SPIN_NS;)
    if (passes(gate, seen, &count)) return count;
  atomic_fetch_add(&gate->sleepers, 1);
  while ((count = atomic_load(&gate->count)) == seen) /* a system that knows no futexes does not exist */
    (void)syscall(SYS_futex, &gate->count, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  atomic_fetch_sub(&gate->sleepers, 1);
  return count;
}
