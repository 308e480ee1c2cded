/* A verified program as the structures that kernels see. */
#ifndef ERT_SESSION_PLAN_H
#define ERT_SESSION_PLAN_H

#include "base/kernel.h"
#include "bundle/bundle.h"

/* One input or output of the program. */
typedef struct ert_binding {
  ert_tensor *tensor;
  const ert_tensor *count; /* how much of `axis` is meaningful; NULL if all */
  uint32_t axis;
  uint32_t first_view; /* tensors in this buffer: ids chained by ert_plan.next_view */
  bool bound;
} ert_binding;

enum { ERT_NO_VIEW = UINT32_MAX };

typedef struct ert_plan {
  ert_tensor *tensors;
  ert_step *steps;
  ert_binding *inputs, *outputs;
  uint32_t *next_view; /* for every tensor, the next one in the same bound buffer, or ERT_NO_VIEW */
  uint32_t n_tensors, n_steps, n_inputs, n_outputs;
} ert_plan;

/* Builds the plan of a runnable program in one block of memory; free with ert_plan_close. Constants point
 * into the bundle, tensors of the arena into `arena`, those of inputs and outputs nowhere yet. */
edgert_status ert_plan_open(const edgert_bundle *bundle, ert_table program, uint8_t *arena, ert_plan **out);

/* Proves of a prepared step that its outputs overlap no other operand, but the first exactly an input that the kernel
 * allows. `program` is the plan's. */
edgert_status ert_plan_expect_apart(const ert_plan *plan, ert_table program, const ert_prepare *p);

/* Frees the plan and the states of its steps. NULL is allowed. */
void ert_plan_close(ert_plan *plan);

#endif
