/* The digests of a bundle that tests have changed made right again, so that damage reaches the checks behind them. */
#ifndef EDGERT_TESTS_SIGN_H
#define EDGERT_TESTS_SIGN_H

#include <string.h>

#include "base/checked.h"
#include "bundle/metadata.h"
#include "platform/sha256.h"

enum { HEADER = 128, DIGEST_AT = 64, METADATA_LENGTH_AT = 32, MINOR_AT = 10, MINOR_OF_PIECES = 10 };

static inline void sign_pieces(const uint8_t *metadata, uint64_t length, uint8_t *digests) {
  for (uint64_t at = 0; at < length; at += ERT_PIECE_BYTES, digests += ERT_SHA256_BYTES) {
    ert_sha256 hash;
    ert_sha256_start(&hash);
    ert_sha256_add(&hash, metadata + at, length - at < ERT_PIECE_BYTES ? (size_t)(length - at) : ERT_PIECE_BYTES);
    ert_sha256_finish(&hash, digests);
  }
}

/* Where there is room for the metadata, and for the digests of its pieces if the version has some. */
static inline void sign_file(uint8_t *data, uint64_t bytes) {
  uint64_t length;
  memcpy(&length, data + METADATA_LENGTH_AT, sizeof length);
  if (!ert_within(HEADER, length, bytes)) length = 0;
  const uint8_t *hashed = data + HEADER;
  uint64_t count = length;
  if (data[MINOR_AT] >= MINOR_OF_PIECES) {
    hashed += length;
    count = ERT_SHA256_BYTES * ert_metadata_pieces(length);
    if (!ert_within(HEADER + length, count, bytes)) count = 0;
    if (count > 0) sign_pieces(data + HEADER, length, data + HEADER + length);
  }
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, data, DIGEST_AT);
  ert_sha256_add(&hash, hashed, (size_t)count);
  ert_sha256_finish(&hash, data + DIGEST_AT);
}

#endif
