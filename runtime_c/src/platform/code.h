/* Memory for instructions that are made while running. */
#ifndef ERT_PLATFORM_CODE_H
#define ERT_PLATFORM_CODE_H

#include <stdbool.h>

#include "base/pages.h"

/* `pieces` pieces of memory, `piece` bytes each, behind one another: the first one lies `*at` behind `beside`, and can be
 * executed `*shift` further on; no page is both written and executed at one address, and only those used take memory.
 * `piece` is a multiple of ERT_CODE_UNIT. False if the system refuses. `*out` is owned by the caller, for ert_pages_close. */
enum { ERT_CODE_UNIT = 1 << 16 };
bool ert_code_open(const uint8_t *beside, size_t piece, uint32_t pieces, ert_pages *out, ptrdiff_t *at,
                   ptrdiff_t *shift);

#endif
