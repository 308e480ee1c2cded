/* Metadata that tests have changed. */
#ifndef EDGERT_TESTS_METADATA_H
#define EDGERT_TESTS_METADATA_H

#include "base/checked.h"
#include "platform/sha256.h"
#include "test.h"

enum { HEADER = 128, DIGEST_AT = 64, METADATA_LENGTH_AT = 32 };

static inline uint64_t metadata_length(const file *f) {
  uint64_t length;
  memcpy(&length, f->data + METADATA_LENGTH_AT, sizeof length);
  return length;
}

/* Makes the digest of header and metadata right again, so that damage reaches the checks behind it. */
static inline void sign(file *f) {
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, f->data, DIGEST_AT);
  if (ert_within(HEADER, metadata_length(f), f->bytes)) ert_sha256_add(&hash, f->data + HEADER, metadata_length(f));
  ert_sha256_finish(&hash, f->data + DIGEST_AT);
}

#endif
