/* Runs a program with every operand of every step in memory of its own, so that sanitizers see a step that leaves them. */
#ifndef EDGERT_FUZZ_GUARDED_H
#define EDGERT_FUZZ_GUARDED_H

#include "bundle/bundle.h"
#include "mutate.h"

enum { MOST_RUN_BYTES = 1 << 18 }; /* of a program's tensors together, for it to be run */

/* What became of a program. */
typedef enum outcome {
  OUTCOME_REFUSED, /* before any step ran */
  OUTCOME_LARGE,   /* not run */
  OUTCOME_RAN,
} outcome;

/* Chooses, prepares and runs a program of the bundle on random inputs, its tasks dealt to `workers` one after the other.
 * Aborts if a step writes what it may only read. `ran` is called with the name of the kernel of each step that ran. */
outcome run_guarded(const edgert_bundle *bundle, const char *isa, uint32_t workers, dice *d,
                    void (*ran)(const char *kernel));

/* The same through the public interface, with threads and the arena as it is. With an `emulator`, its path, a program for
 * a device runs on that, and may fail there; else none does. */
outcome run_session(const edgert_bundle *bundle, const char *isa, uint32_t threads, const char *emulator, dice *d,
                    void (*ran)(const char *kernel));

#endif
