/* Instructions that kernels make once, when a session is opened. */
#ifndef ERT_BASE_MADE_H
#define ERT_BASE_MADE_H

#include <stdbool.h>

#include "base/pages.h"

/* ERT_MADE_MOST bytes of them. All zero: there are none yet. `pages` are owned by the caller, for ert_pages_close. */
enum { ERT_MADE_MOST = 1 << 17 };
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
