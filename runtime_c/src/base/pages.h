/* Blocks of working memory: zeroed pages, huge ones where the system has them. */
#ifndef ERT_BASE_PAGES_H
#define ERT_BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
  ERT_PAGES_SMALL = 256 << 10, /* blocks that are no larger have small pages: fewer take less time than one huge page */
  ERT_PAGES_HUGE = 2 << 20,    /* of most systems; where they are larger, or there are none, it is only an alignment */
  ERT_PAGES_BESIDE = 16 << 10, /* of what is read beside a block */
};

typedef struct ert_pages {
  uint8_t *data; /* page-aligned; never NULL in a block that was opened, even an empty one */
  size_t bytes;  /* as many as asked for, or more: whole pages */
  void *mapping; /* what holds it */
  size_t mapped;
} ert_pages;

/* At least `bytes` of zeroed memory, owned by the caller: give it to ert_pages_close. *out is empty on failure. `what` names
 * it in the message. Pages appear when first used, each by a fault. Beside the block there are pages, too, of zeros:
 * vectors whose lanes beyond a tensor are masked reach there, and where no page is, padded 3x3 convolutions took 5 to 9 %
 * longer. */
edgert_status ert_pages_open(size_t bytes, const char *what, ert_pages *out);

/* Makes pages for reading appear in [begin, end): one of zeros, which all of them share until they are written. */
void ert_pages_touch(const uint8_t *begin, const uint8_t *end);

/* Makes pages of [begin, end), of which nothing is used yet, appear for writing. */
void ert_pages_appear(uint8_t *begin, uint8_t *end);

/* One that is empty is allowed. */
void ert_pages_close(ert_pages pages);

#endif
