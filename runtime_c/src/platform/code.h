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

/* Instructions that are made once, ERT_MADE_MOST bytes of them. All zero: there are none yet. `pages` are owned by the caller,
 * for ert_pages_close. */
enum { ERT_MADE_MOST = 1 << 18 };
typedef struct ert_made {
  ert_pages pages;
  size_t used;
} ert_made;

/* Memory to write `bytes` of instructions to; NULL if there is not so much left, or the system refuses. */
uint8_t *ert_made_take(ert_made *made, size_t bytes);

/* Of what was taken last only what lies before `end` is needed. */
void ert_made_trim(ert_made *made, const uint8_t *end);

/* From now on all of it can be executed, and none of it written. False if the system refuses. */
bool ert_made_seal(const ert_made *made);

#endif
