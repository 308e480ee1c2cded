/* Memory for instructions that kernels make once, when a session is opened. */
#ifndef ERT_BASE_MADE_H
#define ERT_BASE_MADE_H

#include <stdbool.h>

#include "base/pages.h"

enum { ERT_MADE_MOST = 160 << 10 }; /* of a session, of which kernels leave a fifth or so empty */

/* Memory to write `bytes` of instructions to, owned by the caller, for ert_pages_close. Its pages appear when first used.
 * False if the system refuses. */
bool ert_made_open(size_t bytes, ert_pages *out);

/* From now on all of it, which may be nothing, can be executed, and none of it written. False if the system refuses. */
bool ert_made_seal(ert_pages made);

#endif
