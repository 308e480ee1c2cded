/* Memory for instructions that are made while running. */
#ifndef ERT_PLATFORM_CODE_H
#define ERT_PLATFORM_CODE_H

#include <stdbool.h>

#include "platform/pages.h"

/* Lets the `bytes` at `at` of each of `pieces` neighbouring pieces of `memory` be executed as well, at addresses `*shift`
 * further on: no page is both written and executed at one address. `piece`, `at` and `bytes` are multiples of ERT_CODE_UNIT.
 * False if the system refuses; the memory can be used all the same. `*out` is owned by the caller, for ert_pages_close. */
enum { ERT_CODE_UNIT = 1 << 16 };
bool ert_code_open(uint8_t *memory, size_t piece, size_t at, size_t bytes, uint32_t pieces, ert_pages *out,
                   ptrdiff_t *shift);

#endif
