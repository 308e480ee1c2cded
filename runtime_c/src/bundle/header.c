/* The file header: 128 bytes of magic, version, lengths and a digest of itself and of the metadata's digests. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "bundle/bundle.h"
#include "platform/sha256.h"

enum {
  MAGIC_BYTES = 8,
  MAJOR_AT = 8,
  MINOR_AT = 10,
  FLAGS_AT = 12,
  FILE_LENGTH_AT = 16,
  METADATA_OFFSET_AT = 24,
  METADATA_LENGTH_AT = 32,
  RESERVED_AT = 40,
  DIGEST_AT = 64,
  SPARE_AT = 96,
  HEADER_BYTES = 128,
};

enum { MAJOR = 1, MINOR = 10 };

/* From this minor version on, pieces of the metadata have digests of their own. */
enum { MINOR_OF_PIECES = 10 };

static const uint8_t magic[MAGIC_BYTES] = {0x89, 'E', 'D', 'G', 'E', 'R', 'T', '\n'};

static uint64_t load(const uint8_t *data, size_t bytes) {
  uint64_t x = 0;
  memcpy(&x, data, bytes);
  return x;
}

static edgert_status expect_zero(const uint8_t *data, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; i++)
    if (data[i] != 0)
      return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("byte %" PRIu64 " of the file", i).s, "0",
                      ert_format("%u", data[i]).s);
  return EDGERT_OK;
}

static edgert_status verify_version(const uint8_t *data) {
  uint64_t major = load(data + MAJOR_AT, 2), minor = load(data + MINOR_AT, 2), flags = load(data + FLAGS_AT, 4);
  if (major == MAJOR && minor <= MINOR && flags == 0) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_VERSION, "byte 8 of the file",
                  ert_format("version %d.0 to %d.%d", MAJOR, MAJOR, MINOR).s,
                  ert_format("%" PRIu64 ".%" PRIu64 " with flags %" PRIu64, major, minor, flags).s);
}

/* Compares the header and the digests behind the metadata with the header's digest, in old files the metadata itself. */
static edgert_status verify_digest(edgert_bundle *bundle) {
  ert_metadata *metadata = &bundle->metadata;
  const bool pieces = load(bundle->data + MINOR_AT, 2) >= MINOR_OF_PIECES;
  const uint64_t end = metadata->base + metadata->bytes;
  const uint64_t digests = pieces ? ERT_SHA256_BYTES * ert_metadata_pieces(metadata->bytes) : 0;
  if (!ert_within(end, digests, bundle->bytes))
    return ert_fail(EDGERT_ERROR_MALFORMED, "digests of the metadata",
                    ert_format("%" PRIu64 " bytes from byte %" PRIu64 " of the file", digests, end).s,
                    ert_format("%" PRIu64, bundle->bytes - end).s);
  metadata->digests = bundle->data + end;
  bundle->metadata_end = end + digests;
  uint8_t digest[ERT_SHA256_BYTES];
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, bundle->data, DIGEST_AT);
  ert_sha256_add(&hash, pieces ? metadata->digests : metadata->data, pieces ? digests : metadata->bytes);
  ert_sha256_finish(&hash, digest);
  if (memcmp(digest, bundle->data + DIGEST_AT, sizeof digest) != 0)
    return ert_fail(EDGERT_ERROR_CORRUPT, pieces ? "header and digests of the metadata" : "header and metadata",
                    "the SHA-256 at byte 64", "another");
  return ert_metadata_open(metadata, !pieces);
}

edgert_status ert_header_verify(edgert_bundle *bundle, ert_reach reach) {
  const uint8_t *data = bundle->data;
  uint64_t present = bundle->bytes < MAGIC_BYTES ? bundle->bytes : MAGIC_BYTES;
  if (present == 0 || memcmp(data, magic, present) != 0)
    return ert_fail(EDGERT_ERROR_NOT_A_BUNDLE, "byte 0 of the file", "the signature \\x89EDGERT\\n",
                    present ? "other bytes" : "an empty file");
  if (bundle->bytes < HEADER_BYTES)
    return ert_fail(EDGERT_ERROR_TRUNCATED, "file header", "128 bytes", ert_format("%" PRIu64, bundle->bytes).s);
  ERT_TRY(verify_version(data));
  uint64_t length = load(data + FILE_LENGTH_AT, 8);
  if (length != bundle->bytes)
    return ert_fail(EDGERT_ERROR_TRUNCATED, "length of the file", ert_format("%" PRIu64 " bytes", length).s,
                    ert_format("%" PRIu64, bundle->bytes).s);
  uint64_t offset = load(data + METADATA_OFFSET_AT, 8), bytes = load(data + METADATA_LENGTH_AT, 8);
  if (offset != HEADER_BYTES || !ert_within(offset, bytes, length))
    return ert_fail(EDGERT_ERROR_MALFORMED, "byte 24 of the file: metadata", "offset 128, length within the file",
                    ert_format("offset %" PRIu64 ", length %" PRIu64, offset, bytes).s);
  ERT_TRY(expect_zero(data, RESERVED_AT, DIGEST_AT));
  ERT_TRY(expect_zero(data, SPARE_AT, HEADER_BYTES));
  bundle->metadata = (ert_metadata){.data = data + offset, .bytes = bytes, .base = offset};
  ERT_TRY(verify_digest(bundle));
  if (reach == ERT_REACH_ALL) ERT_TRY(ert_metadata_expect(&bundle->metadata, 0, bytes));
  ERT_TRY(ert_flatbuffer_verify(&bundle->metadata, reach));
  bundle->root = ert_root(data + offset);
  return EDGERT_OK;
}
