/* A session: a plan, the memory it works in and the threads that run it. */
#ifndef ERT_SESSION_SESSION_H
#define ERT_SESSION_SESSION_H

#include "kernels/simd/simd.h"
#include "session/plan.h"
#include "session/pool.h"

struct edgert_session {
  const edgert_bundle *bundle; /* borrowed, like the next */
  const char *target;
  const ert_simd *simd;
  ert_plan *plan; /* owned, like all that follows */
  uint8_t *arena; /* zeroed once */
  size_t arena_bytes;
  uint8_t *scratch;     /* one piece for every worker */
  size_t scratch_bytes; /* of one piece, a multiple of 64 */
  ert_pool *pool;
  bool checked; /* bindings have not changed since they were found complete and disjoint */
  bool ran;     /* since the last binding of an output */
  edgert_profile_hook hook;
  void *user;
};

/* choose.c: the program called `target`, or the first one that can run here. */
edgert_status ert_program_choose(const edgert_bundle *bundle, const char *target, ert_table *out);

#endif
