/* A verified program as the structures that kernels see. */
#ifndef ERT_SESSION_PLAN_H
#define ERT_SESSION_PLAN_H

#include "base/kernel.h"
#include "base/room.h"
#include "bundle/bundle.h"

/* One input or output of the program. */
typedef struct ert_binding {
  ert_tensor *tensor;
  const ert_tensor *count; /* how much of `axis` is meaningful; NULL if all */
  uint32_t axis;
  uint32_t first_view; /* tensors in this buffer: ids chained by ert_view.next */
  uint64_t address;    /* of the caller's buffer; 0: none is bound */
  bool device;         /* it is in memory of the device, */
  bool mirrored;       /* and steps see the copy of it in `mirror` */
  void *mirror;        /* NULL: was not needed yet */
} ert_binding;

enum { ERT_NO_VIEW = UINT32_MAX };

/* Where a tensor lies in what it is a view of. */
typedef struct ert_view {
  size_t at;     /* bytes from the root's first element to its own; 0 if it is no view */
  uint32_t next; /* the next tensor in the same bound buffer, or ERT_NO_VIEW */
} ert_view;

/* Who runs a step, and when. */
typedef struct ert_turn {
  uint32_t core; /* of the program; ERT_ALL_CORES: each a share of the tasks */
  uint32_t phase;
} ert_turn;

typedef struct ert_plan {
  ert_tensor *tensors;
  ert_step *steps;
  ert_binding *inputs, *outputs;
  ert_view *views; /* of every tensor */
  ert_turn *turns; /* of every step */
  uint32_t n_tensors, n_steps, n_inputs, n_outputs;
} ert_plan;

/* Builds the plan of a runnable program as one piece of the room. Constants point into the bundle, tensors of the arenas
 * into `arena` and `device_arena`, those of inputs and outputs nowhere yet. */
edgert_status ert_plan_open(const edgert_bundle *bundle, ert_table program, uint8_t *arena, uint64_t device_arena,
                            ert_room *room, ert_plan **out);

/* Proves that a step has no strided views, nothing in f16 or bf16 and nothing in device memory, unless its kernel takes them;
 * before that prepares it. */
edgert_status ert_plan_expect_suited(const ert_prepare *p);

/* Proves of a prepared step that its outputs overlap no other operand, but the first exactly an input that the kernel
 * allows. `program` is the plan's. */
edgert_status ert_plan_expect_apart(const ert_plan *plan, ert_table program, const ert_prepare *p);

#endif
