/* Every byte of every segment against its digest: chunks of 1 MiB, hashed in pairs by several threads. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "bundle/bundle.h"
#include "platform/sha256.h"
#include "platform/thread.h"

typedef struct chunk {
  const uint8_t *data;
  size_t bytes;
  uint8_t digest[ERT_SHA256_BYTES];
} chunk;

typedef struct work {
  chunk *chunks;
  size_t count;
  atomic_size_t next;
} work;

static size_t chunk_count(uint64_t bytes) { return (size_t)(bytes / ERT_CHUNK_BYTES + (bytes % ERT_CHUNK_BYTES != 0)); }

/* The next chunk of a segment of which `left` bytes are left at `data`. */
static chunk take_chunk(const uint8_t **data, uint64_t *left) {
  chunk c = {.data = *data, .bytes = *left < ERT_CHUNK_BYTES ? (size_t)*left : ERT_CHUNK_BYTES};
  *data += c.bytes;
  *left -= c.bytes;
  return c;
}

static void hash_one(chunk *c) {
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, c->data, c->bytes);
  ert_sha256_finish(&hash, c->digest);
}

/* Takes pairs of chunks until none is left. */
static void *hash_chunks(void *argument) {
  work *w = argument;
  for (;;) {
    size_t i = atomic_fetch_add(&w->next, 2);
    if (i >= w->count) return NULL;
    chunk *a = &w->chunks[i], *b = i + 1 < w->count ? a + 1 : NULL;
    if (b && a->bytes == b->bytes) {
      ert_sha256_pair(a->data, b->data, a->bytes, a->digest, b->digest);
    } else {
      hash_one(a);
      if (b) hash_one(b);
    }
  }
}

/* Hashes on the calling thread and as many others as can be started. */
static void hash_in_parallel(work *w, uint32_t threads) {
  enum { MOST = 64 };
  pthread_t others[MOST];
  uint32_t started = 0;
  size_t useful = (w->count + 1) / 2;
  while (started + 1 < threads && started + 1 < useful && started < MOST &&
         ert_thread_start(&others[started], hash_chunks, w) == EDGERT_OK)
    started++;
  hash_chunks(w);
  for (uint32_t i = 0; i < started; i++) pthread_join(others[i], NULL);
}

/* Compares the digest over a segment's chunks with the one in the metadata. */
static edgert_status compare(uint32_t number, ert_table segment, ert_sha256 *chunks) {
  uint8_t digest[ERT_SHA256_BYTES];
  ert_sha256_finish(chunks, digest);
  if (memcmp(digest, ert_items(segment, ERT_FIELD_SEGMENT_SHA256).data, sizeof digest) == 0) return EDGERT_OK;
  uint64_t offset = ert_u64(segment, ERT_FIELD_SEGMENT_OFFSET, 0);
  uint64_t length = ert_u64(segment, ERT_FIELD_SEGMENT_LENGTH, 0);
  ert_text where = ert_format("segment %" PRIu32 " '%.80s', %" PRIu64 " bytes at byte %" PRIu64 " of the file", number,
                              ert_string(segment, ERT_FIELD_SEGMENT_NAME), length, offset);
  return ert_fail(EDGERT_ERROR_CORRUPT, where.s, "the SHA-256 of the metadata", "another");
}

static edgert_status compare_all(ert_vector segments, const chunk *chunks) {
  for (uint32_t i = 0; i < segments.count; i++) {
    ert_table segment = ert_item(segments, i);
    ert_sha256 hash;
    ert_sha256_start(&hash);
    for (size_t n = chunk_count(ert_u64(segment, ERT_FIELD_SEGMENT_LENGTH, 0)); n > 0; n--, chunks++)
      ert_sha256_add(&hash, chunks->digest, ERT_SHA256_BYTES);
    ERT_TRY(compare(i, segment, &hash));
  }
  return EDGERT_OK;
}

static edgert_status expect_zero_gaps(const edgert_bundle *bundle, ert_vector segments) {
  uint64_t end = bundle->metadata_end;
  for (uint32_t i = 0; i < segments.count; i++) {
    ert_table segment = ert_item(segments, i);
    uint64_t offset = ert_u64(segment, ERT_FIELD_SEGMENT_OFFSET, 0);
    for (; end < offset; end++)
      if (bundle->data[end] != 0)
        return ert_fail(EDGERT_ERROR_CORRUPT,
                        ert_format("byte %" PRIu64 " of the file, before segment %" PRIu32, end, i).s, "0",
                        ert_format("%u", bundle->data[end]).s);
    end = offset + ert_u64(segment, ERT_FIELD_SEGMENT_LENGTH, 0);
  }
  return EDGERT_OK;
}

edgert_status ert_integrity_verify(const edgert_bundle *bundle, uint32_t threads) {
  ert_vector segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS);
  ERT_TRY(expect_zero_gaps(bundle, segments));
  work w = {.count = 0};
  for (uint32_t i = 0; i < segments.count; i++)
    w.count += chunk_count(ert_u64(ert_item(segments, i), ERT_FIELD_SEGMENT_LENGTH, 0));
  void *memory = NULL;
  if (w.count > 0) ERT_TRY(ert_allocate(w.count * sizeof(chunk), "digests of the segments", &memory));
  w.chunks = memory;
  chunk *c = w.chunks;
  for (uint32_t i = 0; i < segments.count; i++) {
    const uint8_t *data = ert_segment_data(bundle, ert_item(segments, i));
    uint64_t left = ert_u64(ert_item(segments, i), ERT_FIELD_SEGMENT_LENGTH, 0);
    for (; left > 0; c++) *c = take_chunk(&data, &left);
  }
  hash_in_parallel(&w, threads);
  edgert_status status = compare_all(segments, w.chunks);
  ert_free(memory);
  return status;
}

edgert_status ert_segment_intact(const edgert_bundle *bundle, uint32_t number) {
  ert_table segment = ert_item(ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS), number);
  const uint8_t *data = ert_segment_data(bundle, segment);
  uint64_t left = ert_u64(segment, ERT_FIELD_SEGMENT_LENGTH, 0);
  ert_sha256 hash;
  ert_sha256_start(&hash);
  while (left > 0) {
    chunk c = take_chunk(&data, &left);
    hash_one(&c);
    ert_sha256_add(&hash, c.digest, ERT_SHA256_BYTES);
  }
  return compare(number, segment, &hash);
}
