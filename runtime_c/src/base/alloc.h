/* The only place that allocates memory, that of sessions (base/room.h) aside. */
#ifndef ERT_BASE_ALLOC_H
#define ERT_BASE_ALLOC_H

#include <stddef.h>

#include "base/status.h"

enum { ERT_ALIGNMENT = 64 };

/* Zeroed, 64-byte aligned memory, owned by the caller: give it to ert_free. *out is NULL on failure. `what` names it in
 * the message. Large blocks are not touched: their pages appear when first used. */
edgert_status ert_allocate(size_t bytes, const char *what, void **out);

/* NULL is allowed. */
void ert_free(void *memory);

#endif
