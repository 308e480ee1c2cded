/* Digests of the metadata's pieces: compared in pairs, which takes hardly longer than one by one. */
#include "bundle/metadata.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/sha256.h"

edgert_status ert_metadata_open(ert_metadata *metadata, bool intact) {
  const uint64_t pieces = ert_metadata_pieces(metadata->bytes);
  void *memory;
  ERT_TRY(ert_allocate(((size_t)pieces + 1) * sizeof *metadata->intact, "marks of metadata", &memory));
  metadata->intact = memory;
  for (uint64_t i = 0; i < pieces; i++) atomic_init(&metadata->intact[i], intact);
  atomic_init(&metadata->intact[pieces], 1);
  return EDGERT_OK;
}

void ert_metadata_close(ert_metadata *metadata) {
  ert_free(metadata->intact);
  metadata->intact = NULL;
}

static edgert_status expect_digest(const ert_metadata *m, uint64_t piece, const uint8_t digest[ERT_SHA256_BYTES]) {
  if (memcmp(digest, m->digests + ERT_SHA256_BYTES * piece, ERT_SHA256_BYTES) != 0)
    return ert_fail(EDGERT_ERROR_CORRUPT,
                    ert_format("metadata, from byte %" PRIu64 " of the file", m->base + ERT_PIECE_BYTES * piece).s,
                    "the SHA-256 behind the metadata", "another");
  atomic_store_explicit(&m->intact[piece], 1, memory_order_relaxed);
  return EDGERT_OK;
}

static edgert_status compare_one(const ert_metadata *m, uint64_t piece) {
  const uint64_t at = ERT_PIECE_BYTES * piece, left = m->bytes - at;
  uint8_t digest[ERT_SHA256_BYTES];
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, m->data + at, left < ERT_PIECE_BYTES ? (size_t)left : ERT_PIECE_BYTES);
  ert_sha256_finish(&hash, digest);
  return expect_digest(m, piece, digest);
}

edgert_status ert_metadata_compare(const ert_metadata *metadata, uint64_t first, uint64_t last) {
  const uint64_t whole = metadata->bytes / ERT_PIECE_BYTES / 2 * 2; /* pieces in pairs of whole ones */
  for (uint64_t i = first / 2 * 2; i <= last && i < whole; i += 2) {
    uint8_t a[ERT_SHA256_BYTES], b[ERT_SHA256_BYTES];
    const uint8_t *data = metadata->data + ERT_PIECE_BYTES * i;
    ert_sha256_pair(data, data + ERT_PIECE_BYTES, ERT_PIECE_BYTES, a, b);
    ERT_TRY(expect_digest(metadata, i, a));
    ERT_TRY(expect_digest(metadata, i + 1, b));
  }
  for (uint64_t i = first < whole ? whole : first; i <= last; i++) ERT_TRY(compare_one(metadata, i));
  return EDGERT_OK;
}
