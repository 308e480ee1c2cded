/* SHA-256: padding, messages in pieces, choice of the compression function, and its portable form. */
#include "platform/sha256.h"

#include <stdatomic.h>
#include <string.h>

#include "platform/cpu.h"

_Alignas(64) const uint32_t ert_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t load_big(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_big(uint8_t *p, uint32_t x) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void compress_block(uint32_t state[8], const uint8_t *data) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; i++) w[i] = load_big(data + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t x = w[i - 15], y = w[i - 2];
    uint32_t sigma0 = rotate(x, 7) ^ rotate(x, 18) ^ x >> 3, sigma1 = rotate(y, 17) ^ rotate(y, 19) ^ y >> 10;
    w[i] = w[i - 16] + sigma0 + w[i - 7] + sigma1;
  }
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; i++) {
    uint32_t a = s[0], e = s[4];
    uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                  ert_sha256_constants[i] + w[i];
    uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

void ert_sha256_compress_portable(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b,
                                  size_t blocks) {
  for (size_t i = 0; i < blocks; i++) {
    compress_block(state_a, a + 64 * i);
    if (b) compress_block(state_b, b + 64 * i);
  }
}

/* Chosen at the first use. */
static ert_sha256_compress *compressor(void) {
  static _Atomic(ert_sha256_compress *) chosen;
  ert_sha256_compress *compress = atomic_load_explicit(&chosen, memory_order_relaxed);
  if (!compress) {
    compress = ert_cpu_has_sha256() ? ert_sha256_compress_native : ert_sha256_compress_portable;
    atomic_store_explicit(&chosen, compress, memory_order_relaxed);
  }
  return compress;
}

void ert_sha256_start(ert_sha256 *hash) {
  memcpy(hash->state, initial, sizeof initial);
  hash->bytes = 0;
}

void ert_sha256_add(ert_sha256 *hash, const void *data, size_t bytes) {
  const uint8_t *p = data;
  size_t held = hash->bytes % 64;
  hash->bytes += bytes;
  if (held > 0) {
    size_t taken = bytes < 64 - held ? bytes : 64 - held;
    if (taken > 0) memcpy(hash->block + held, p, taken);
    if (held + taken < 64) return;
    compressor()(hash->state, hash->block, NULL, NULL, 1);
    p += taken;
    bytes -= taken;
  }
  size_t blocks = bytes / 64;
  if (blocks > 0) compressor()(hash->state, p, NULL, NULL, blocks);
  if (bytes % 64 > 0) memcpy(hash->block, p + 64 * blocks, bytes % 64);
}

void ert_sha256_finish(ert_sha256 *hash, uint8_t digest[ERT_SHA256_BYTES]) {
  uint64_t bits = hash->bytes * 8;
  uint8_t tail[64 + 8] = {0x80};
  size_t zeros = (119 - hash->bytes % 64) % 64;
  store_big(tail + 1 + zeros, (uint32_t)(bits >> 32));
  store_big(tail + 1 + zeros + 4, (uint32_t)bits);
  ert_sha256_add(hash, tail, 1 + zeros + 8);
  for (int i = 0; i < 8; i++) store_big(digest + 4 * i, hash->state[i]);
}

void ert_sha256_pair(const void *a, const void *b, size_t bytes, uint8_t digest_a[ERT_SHA256_BYTES],
                     uint8_t digest_b[ERT_SHA256_BYTES]) {
  ert_sha256 x, y;
  ert_sha256_start(&x);
  ert_sha256_start(&y);
  size_t whole = bytes / 64 * 64;
  if (whole > 0) compressor()(x.state, a, y.state, b, whole / 64);
  x.bytes = y.bytes = whole;
  ert_sha256_add(&x, (const uint8_t *)a + whole, bytes - whole);
  ert_sha256_add(&y, (const uint8_t *)b + whole, bytes - whole);
  ert_sha256_finish(&x, digest_a);
  ert_sha256_finish(&y, digest_b);
}
