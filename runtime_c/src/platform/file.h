/* A whole file mapped into memory, read-only and private. */
#ifndef ERT_PLATFORM_FILE_H
#define ERT_PLATFORM_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ert_mapping {
  const uint8_t *data; /* NULL for an empty file */
  size_t bytes;
} ert_mapping;

/* Maps the regular file at `path`; undo with ert_unmap. *out is empty on failure. */
edgert_status ert_map(const char *path, ert_mapping *out);

void ert_unmap(ert_mapping mapping);

#endif
