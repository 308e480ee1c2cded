/* A session: a plan, the memory it works in and the threads that run it. */
#ifndef ERT_SESSION_SESSION_H
#define ERT_SESSION_SESSION_H

#include "backends/cuda/device.h"
#include "base/made.h"
#include "base/room.h"
#include "kernels/simd/simd.h"
#include "platform/cpu.h"
#include "session/plan.h"
#include "session/pool.h"
#include "session/profile.h"
#include "session/schedule.h"

enum { ERT_MOST_CORES = 255 }; /* of a program */

struct edgert_session {
  const edgert_bundle *bundle; /* borrowed, like the next */
  const char *target;
  const ert_simd *simd;
  uint32_t cores; /* that the program is made for */
  ert_room room;  /* owned, like all that follows; what is said to lie there is freed with it */
  uint8_t *arena; /* in the room, as its first piece, zeroed once */
  size_t arena_bytes;
  ert_plan *plan;         /* in the room */
  ert_schedule *schedule; /* in the room */
  uint8_t *scratch;       /* in the room: a piece for every worker */
  size_t scratch_bytes;   /* of one piece, a multiple of 64 */
  ert_pages code;         /* that each worker writes and executes; empty if no step wants that */
  ert_pages made;         /* what all execute; empty if there is nothing such */
  ert_device *device;     /* NULL: the program has none */
  uint64_t device_bytes;  /* of the arena on the device */
  ert_pool *pool;
  ert_profile *profile; /* NULL: nobody looks */
  bool checked;         /* bindings have not changed since they were found complete and disjoint */
  bool ran;             /* since the last binding of an output */
};

/* bind.c: every buffer is there, and outputs overlap nothing. */
edgert_status ert_session_check_bindings(edgert_session *session);

/* choose.c: of the programs for options->target (NULL: for the first target that can run here) that can run here, the one
 * for the most cores up to options->threads, or if all are for more, the one for the fewest. */
edgert_status ert_program_choose(const edgert_bundle *bundle, const edgert_session_options *options, ert_table *out);

/* runnable.c: whether this machine and this library can run a program with these options, which is proven for that; the
 * message of the failure says why not. */
edgert_status ert_program_runnable(const edgert_bundle *bundle, uint32_t index, const edgert_session_options *options);

/* place.c: finds cpus[w] for each of `workers` workers such that fast cores of the program are on fast CPUs. False if
 * there is nothing to choose: its cores or this machine's CPUs are alike, or the workers more than the CPUs. `folder` is
 * /sys/devices/system/cpu; `allowed` lists the CPUs that may be used, NULL for those of the calling thread. */
bool ert_workers_place(ert_table program, uint32_t workers, const char *folder, const cpu_set_t *allowed,
                       uint32_t *cpus);

#endif
