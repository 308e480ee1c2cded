/* Metadata that tests have changed. */
#ifndef EDGERT_TESTS_METADATA_H
#define EDGERT_TESTS_METADATA_H

#include "sign.h"
#include "test.h"

static inline uint64_t metadata_length(const file *f) {
  uint64_t length;
  memcpy(&length, f->data + METADATA_LENGTH_AT, sizeof length);
  return length;
}

static inline void sign(file *f) { sign_file(f->data, f->bytes); }

#endif
