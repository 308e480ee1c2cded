/* Metadata in pieces of 4 KiB, each of which is compared with its digest before anybody looks at it. */
#ifndef ERT_BUNDLE_METADATA_H
#define ERT_BUNDLE_METADATA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { ERT_PIECE_BYTES = 4096 };

typedef struct ert_metadata {
  const uint8_t *data;    /* 8-byte aligned */
  uint64_t bytes, base;   /* base: where it begins in the file, for messages */
  const uint8_t *digests; /* of each piece; not needed where all are known to be intact */
  atomic_uchar *intact;   /* of each piece, and what is behind them: whether it was compared, by one of those who open
                           * sessions at the same time; owned */
} ert_metadata;

/* How many pieces so many bytes are. */
static inline uint64_t ert_metadata_pieces(uint64_t bytes) {
  return bytes / ERT_PIECE_BYTES + (bytes % ERT_PIECE_BYTES != 0);
}

/* Begins with pieces of which all are known to be intact, or none. */
edgert_status ert_metadata_open(ert_metadata *metadata, bool intact);
void ert_metadata_close(ert_metadata *metadata);

/* Compares the pieces from `first` to `last` that were not yet, and maybe neighbours. */
edgert_status ert_metadata_compare(const ert_metadata *metadata, uint64_t first, uint64_t last);

/* Proves that `bytes` bytes at `at`, which lie within the metadata, are those of the digests. */
static inline edgert_status ert_metadata_expect(const ert_metadata *metadata, uint64_t at, uint64_t bytes) {
  const uint64_t first = at / ERT_PIECE_BYTES, last = (at + bytes - (bytes > 0)) / ERT_PIECE_BYTES;
  for (uint64_t i = first; i <= last; i++)
    if (!atomic_load_explicit(&metadata->intact[i], memory_order_relaxed))
      return ert_metadata_compare(metadata, i, last);
  return EDGERT_OK;
}

#endif
