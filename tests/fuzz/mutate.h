/* Makes hostile bundles out of good ones: changes to the decoded metadata, to its bytes, and to the constants. */
#ifndef EDGERT_FUZZ_MUTATE_H
#define EDGERT_FUZZ_MUTATE_H

#include "bundle/bundle.h"
#include "tree.h"

/* Random numbers; the same for the same seed. */
typedef struct dice {
  uint64_t state;
} dice;

uint64_t roll(dice *d);
/* One of 0 .. n - 1; 0 for n = 0. */
uint64_t below(dice *d, uint64_t n);

/* A mutant, 64-byte aligned, its last byte the last one that may be read. */
typedef struct mutant {
  uint8_t *data; /* free() it */
  size_t bytes;
} mutant;

/* A mutant of `seed`, which may take steps and tensors from `donor`. Header and digest of the metadata are right in most.
 * `work` is what it may use meanwhile. The bytes are NULL if they would not fit. */
mutant mutate(const edgert_bundle *seed, const edgert_bundle *donor, dice *d, pool *work);

/* Values that have broken programs before, as an integer of `bytes` bytes or a float. */
uint64_t odd_integer(dice *d, uint32_t bytes);
float odd_float(dice *d);

#endif
