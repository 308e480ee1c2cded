/* SHA-256: published vectors, messages in pieces, pairs, and both compression functions against each other. */
#include "platform/cpu.h"
#include "platform/sha256.h"
#include "test.h"

static void expect(const uint8_t digest[ERT_SHA256_BYTES], const char *hex) {
  char got[2 * ERT_SHA256_BYTES + 1];
  for (int i = 0; i < ERT_SHA256_BYTES; i++) snprintf(got + 2 * i, 3, "%02x", digest[i]);
  CHECK(strcmp(got, hex) == 0);
}

static void hash(const void *data, size_t bytes, uint8_t digest[ERT_SHA256_BYTES]) {
  ert_sha256 h;
  ert_sha256_start(&h);
  ert_sha256_add(&h, data, bytes);
  ert_sha256_finish(&h, digest);
}

/* FIPS 180-4 examples. */
static void vectors(void) {
  uint8_t digest[ERT_SHA256_BYTES];
  hash("", 0, digest);
  expect(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash("abc", 3, digest);
  expect(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  hash(two_blocks, strlen(two_blocks), digest);
  expect(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  ert_sha256 h;
  ert_sha256_start(&h);
  char as[1000];
  memset(as, 'a', sizeof as);
  for (int i = 0; i < 1000; i++) ert_sha256_add(&h, as, sizeof as);
  ert_sha256_finish(&h, digest);
  expect(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_and_pairs(void) {
  uint8_t data[600], a[ERT_SHA256_BYTES], b[ERT_SHA256_BYTES], c[ERT_SHA256_BYTES], d[ERT_SHA256_BYTES];
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)next_random(&seed);
  for (size_t bytes = 0; bytes <= 300; bytes++) {
    hash(data, bytes, a);
    hash(data + 299, bytes, b);
    ert_sha256_pair(data, data + 299, bytes, c, d);
    CHECK(memcmp(a, c, sizeof a) == 0 && memcmp(b, d, sizeof b) == 0);
    ert_sha256 h;
    ert_sha256_start(&h);
    for (size_t at = 0; at < bytes;) {
      size_t piece = next_random(&seed) % 100;
      if (piece > bytes - at) piece = bytes - at;
      ert_sha256_add(&h, data + at, piece);
      at += piece;
    }
    ert_sha256_finish(&h, c);
    CHECK(memcmp(a, c, sizeof a) == 0);
  }
}

static void native_equals_portable(void) {
  if (!ert_cpu_has_sha256()) {
    printf("  skipped: this processor has no SHA-256 instructions\n");
    return;
  }
  uint8_t data[64 * 8 + 1];
  uint32_t seed = 2, a[8], b[8], c[8], d[8];
  for (int round = 0; round < 200; round++) {
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)next_random(&seed);
    for (int i = 0; i < 8; i++) {
      a[i] = b[i] = next_random(&seed) << 8 | next_random(&seed);
      c[i] = d[i] = next_random(&seed) << 8 | next_random(&seed);
    }
    size_t blocks = next_random(&seed) % 5;
    ert_sha256_compress_portable(a, data + 1, c, data + 64 * 4, blocks);
    ert_sha256_compress_native(b, data + 1, d, data + 64 * 4, blocks);
    CHECK(memcmp(a, b, sizeof a) == 0 && memcmp(c, d, sizeof c) == 0);
    ert_sha256_compress_portable(a, data, NULL, NULL, blocks);
    ert_sha256_compress_native(b, data, NULL, NULL, blocks);
    CHECK(memcmp(a, b, sizeof a) == 0);
  }
}

int main(void) {
  RUN(vectors);
  RUN(pieces_and_pairs);
  RUN(native_equals_portable);
  return 0;
}
