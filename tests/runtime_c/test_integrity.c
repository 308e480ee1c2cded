/* Checksums of segments of many chunks, on several threads, against digests computed piece by piece. */
#include "base/fault.h"
#include "bundle/schema_tables.h"
#include "platform/sha256.h"
#include "test.h"

enum { HEADER = 128, PAGE = 4096, CHUNK = 1 << 20, SEGMENT_TABLES = 48, METADATA = 1024, MOST_SEGMENTS = 4 };

static void put(file *f, size_t at, const void *value, size_t bytes) { memcpy(f->data + at, value, bytes); }
static void put16(file *f, size_t at, uint16_t x) { put(f, at, &x, sizeof x); }
static void put32(file *f, size_t at, uint32_t x) { put(f, at, &x, sizeof x); }
static void put64(file *f, size_t at, uint64_t x) { put(f, at, &x, sizeof x); }

static void digest(const uint8_t *data, size_t bytes, uint8_t out[ERT_SHA256_BYTES]) {
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, data, bytes);
  ert_sha256_finish(&hash, out);
}

static void segment_digest(const uint8_t *data, size_t bytes, uint8_t out[ERT_SHA256_BYTES]) {
  ert_sha256 whole;
  ert_sha256_start(&whole);
  for (size_t at = 0; at < bytes; at += CHUNK) {
    digest(data + at, bytes - at < CHUNK ? bytes - at : CHUNK, out);
    ert_sha256_add(&whole, out, ERT_SHA256_BYTES);
  }
  ert_sha256_finish(&whole, out);
}

/* A bundle of nothing but segments of these sizes; offsets of metadata are counted from its beginning. */
static file make(uint32_t count, const size_t *sizes) {
  size_t bytes = HEADER + METADATA;
  for (uint32_t i = 0; i < count; i++) bytes = (bytes + PAGE - 1) / PAGE * PAGE + sizes[i];
  uint8_t *zeros = calloc(1, bytes);
  CHECK(zeros != NULL);
  file f = copy_bytes(zeros, bytes);
  free(zeros);
  uint32_t seed = 7;
  size_t end = HEADER + METADATA, m = HEADER;
  /* Bundle at 16 with its vtable at 4; the vector of segments at 24; a Segment at 48 + 224 i, its vtable at 192 before
   * the end of that slot, the digest's vector behind the scalars. */
  put32(&f, m, 16);
  put16(&f, m + 4, 4 + 2 * (ERT_FIELD_BUNDLE_SEGMENTS + 1));
  put16(&f, m + 6, 8);
  put16(&f, m + 8 + 2 * ERT_FIELD_BUNDLE_SEGMENTS, 4);
  put32(&f, m + 16, 12);
  put32(&f, m + 20, 4);
  put32(&f, m + 24, count);
  for (uint32_t i = 0; i < count; i++) {
    size_t slot = m + SEGMENT_TABLES + 224 * (size_t)i, table = slot + 16, vector = slot + 48;
    end = (end + PAGE - 1) / PAGE * PAGE;
    for (size_t at = 0; at < sizes[i]; at++) f.data[end + at] = (uint8_t)next_random(&seed);
    put32(&f, m + 28 + 4 * (size_t)i, (uint32_t)(table - (m + 28 + 4 * (size_t)i)));
    put16(&f, slot, 4 + 2 * 4);
    put16(&f, slot + 2, 24);
    put16(&f, slot + 4 + 2 * ERT_FIELD_SEGMENT_OFFSET, 8);
    put16(&f, slot + 4 + 2 * ERT_FIELD_SEGMENT_LENGTH, 16);
    put16(&f, slot + 4 + 2 * ERT_FIELD_SEGMENT_SHA256, 4);
    put32(&f, table, 16);
    put32(&f, table + 4, (uint32_t)(vector - (table + 4)));
    put64(&f, table + 8, end);
    put64(&f, table + 16, sizes[i]);
    put32(&f, vector, ERT_SHA256_BYTES);
    segment_digest(f.data + end, sizes[i], f.data + vector + 4);
    end += sizes[i];
  }
  CHECK(end == bytes);
  static const uint8_t magic[8] = {0x89, 'E', 'D', 'G', 'E', 'R', 'T', '\n'};
  put(&f, 0, magic, sizeof magic);
  put16(&f, 8, 1);
  put64(&f, 16, bytes);
  put64(&f, 24, HEADER);
  put64(&f, 32, METADATA);
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, f.data, 64);
  ert_sha256_add(&hash, f.data + HEADER, METADATA);
  ert_sha256_finish(&hash, f.data + 64);
  return f;
}

static edgert_status open_full(const file *f, uint32_t threads) {
  edgert_open_options options = {.struct_size = sizeof options, .threads = threads};
  edgert_bundle *bundle;
  edgert_status status = edgert_bundle_open_memory(f->data, f->bytes, &options, &bundle);
  edgert_bundle_close(bundle);
  return status;
}

static void every_size(void) {
  static const size_t cases[][MOST_SEGMENTS] = {
      {0, 0, 0, 0},
      {1, 0, 4096, 0},
      {CHUNK, CHUNK - 1, CHUNK + 1, 5},
      {3 * CHUNK + 7, 0, 1, 2 * CHUNK},
      {4097, 2 * CHUNK, 2 * CHUNK, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (uint32_t count = 0; count <= MOST_SEGMENTS; count++) {
      file f = make(count, cases[i]);
      for (uint32_t threads = 1; threads <= 5; threads += 2) CHECK(open_full(&f, threads) == EDGERT_OK);
      free(f.data);
    }
  }
}

/* A single bit, wherever it is. */
static void flipped_bits(void) {
  static const size_t sizes[MOST_SEGMENTS] = {3 * CHUNK + 7, 100, CHUNK, 2 * CHUNK + 64};
  file f = make(MOST_SEGMENTS, sizes);
  uint32_t seed = 11;
  for (int i = 0; i < 40; i++) {
    size_t at = HEADER + METADATA + (next_random(&seed) * 64 + next_random(&seed) % 64) % (f.bytes - HEADER - METADATA);
    uint8_t bit = (uint8_t)(1u << next_random(&seed) % 8);
    f.data[at] ^= bit;
    CHECK(open_full(&f, 3) == EDGERT_ERROR_CORRUPT);
    f.data[at] ^= bit;
  }
  CHECK(open_full(&f, 3) == EDGERT_OK);
  free(f.data);
}

static bool no_threads(ert_operation operation) { return operation == ERT_OPERATION_THREAD; }

/* Hashing can do without other threads. */
static void without_threads(void) {
  static const size_t sizes[] = {5 * CHUNK};
  file f = make(1, sizes);
  ert_fault_hook = no_threads;
  CHECK(open_full(&f, 4) == EDGERT_OK);
  ert_fault_hook = NULL;
  free(f.data);
}

int main(void) {
  RUN(every_size);
  RUN(flipped_bits);
  RUN(without_threads);
  return 0;
}
