/* What can fail outside of our control, with a hook so that tests can make it fail. */
#ifndef ERT_BASE_FAULT_H
#define ERT_BASE_FAULT_H

#include <stdbool.h>

typedef enum ert_operation {
  ERT_OPERATION_ALLOCATE,
  ERT_OPERATION_OPEN,
  ERT_OPERATION_MAP,
  ERT_OPERATION_THREAD,
} ert_operation;

/* If set, asked before every such operation; true makes it fail. Set it only while nothing else runs. */
extern bool (*ert_fault_hook)(ert_operation operation);

static inline bool ert_fault(ert_operation operation) { return ert_fault_hook && ert_fault_hook(operation); }

#endif
