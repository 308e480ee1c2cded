/* Large blocks of working memory: zeroed pages, huge ones where the system has them. */
#ifndef ERT_PLATFORM_PAGES_H
#define ERT_PLATFORM_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ert_pages {
  uint8_t *data; /* page-aligned; never NULL in a block that was opened, even an empty one */
  void *mapping; /* what holds it */
  size_t mapped;
} ert_pages;

/* `bytes` of zeroed memory, owned by the caller: give it to ert_pages_close. *out is empty on failure. `what` names it in
 * the message. Huge pages appear when first used, each by a single fault; a rest of less than an eighth is there at
 * once, in small ones. So the first run hardly waits for memory. Beside the block there are pages, too, of zeros (behind
 * a block that ends within a huge page, the rest of that): vectors whose lanes beyond a tensor are masked reach there,
 * and where no page is, padded 3x3 convolutions took 5 to 9 % longer. */
edgert_status ert_pages_open(size_t bytes, const char *what, ert_pages *out);

/* One that is empty is allowed. */
void ert_pages_close(ert_pages pages);

#endif
