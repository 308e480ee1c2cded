/* The only place that allocates memory, that of sessions (base/pages.c) aside: calloc, aligned to cache lines. */
#include "base/alloc.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/fault.h"

bool (*ert_fault_hook)(ert_operation operation);

edgert_status ert_allocate(size_t bytes, const char *what, void **out) {
  *out = NULL;
  /* The block, preceded by the address that calloc gave. */
  enum { EXTRA = ERT_ALIGNMENT + sizeof(void *) };
  char *raw = NULL;
  if (bytes <= PTRDIFF_MAX - EXTRA && !ert_fault(ERT_OPERATION_ALLOCATE)) raw = calloc(1, bytes + EXTRA);
  if (!raw) return ert_fail(EDGERT_ERROR_OUT_OF_MEMORY, ert_format("%s: %zu bytes", what, bytes).s, NULL, NULL);
  uintptr_t first = (uintptr_t)raw + sizeof(void *);
  char *aligned = raw + sizeof(void *) + (-first & (ERT_ALIGNMENT - 1));
  ((void **)(void *)aligned)[-1] = raw;
  *out = aligned;
  return EDGERT_OK;
}

void ert_free(void *memory) {
  if (memory) free(((void **)memory)[-1]);
}
