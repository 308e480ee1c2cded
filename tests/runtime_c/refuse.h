/* Every allocation, file, mapping and thread that the library asks for, refused in turn. */
#ifndef EDGERT_TESTS_REFUSE_H
#define EDGERT_TESTS_REFUSE_H

#include "base/fault.h"
#include "test.h"

static struct {
  uint32_t calls, fail_at; /* the call to fail, counted from 1; 0: none */
  bool for_ever;
} plan;

static inline bool refuse(ert_operation operation) {
  (void)operation;
  plan.calls++;
  return plan.fail_at > 0 && (plan.for_ever ? plan.calls >= plan.fail_at : plan.calls == plan.fail_at);
}

/* Uses the bundle while each operation fails, once and from then on: a clean error or success. Returns how many operations
 * there are, and adds to `failures` how many uses failed. */
static inline uint32_t refuse_each(edgert_status (*use)(const char *path), const char *path, uint32_t *failures) {
  ert_fault_hook = refuse;
  plan.calls = plan.fail_at = 0;
  CHECK(use(path) == EDGERT_OK);
  const uint32_t operations = plan.calls;
  for (uint32_t k = 1; k <= 2 * operations; k++) {
    plan.calls = 0;
    plan.fail_at = (k + 1) / 2;
    plan.for_ever = k % 2 == 0;
    edgert_status status = use(path);
    CHECK(status == EDGERT_OK || status == EDGERT_ERROR_OUT_OF_MEMORY || status == EDGERT_ERROR_IO ||
          status == EDGERT_ERROR_THREAD);
    CHECK(status == EDGERT_OK || *edgert_last_error() != '\0');
    *failures += status != EDGERT_OK;
  }
  ert_fault_hook = NULL;
  return operations;
}

#endif
