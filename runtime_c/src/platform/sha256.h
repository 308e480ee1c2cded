/* SHA-256 (FIPS 180-4), with the processor's instructions where it has them. */
#ifndef ERT_PLATFORM_SHA256_H
#define ERT_PLATFORM_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { ERT_SHA256_BYTES = 32 };

typedef struct ert_sha256 {
  uint32_t state[8];
  uint64_t bytes; /* hashed so far */
  uint8_t block[64];
} ert_sha256;

/* A message in pieces: start, add any number of times, finish. */
void ert_sha256_start(ert_sha256 *hash);
void ert_sha256_add(ert_sha256 *hash, const void *data, size_t bytes);
void ert_sha256_finish(ert_sha256 *hash, uint8_t digest[ERT_SHA256_BYTES]);

/* Digests of two messages of equal length at once: their instructions interleave, which hides latency. */
void ert_sha256_pair(const void *a, const void *b, size_t bytes, uint8_t digest_a[ERT_SHA256_BYTES],
                     uint8_t digest_b[ERT_SHA256_BYTES]);

/* ---- implementations of the compression function (sha256-*.c), behind those above ---- */

extern const uint32_t ert_sha256_constants[64];

/* Absorb `blocks` blocks of 64 bytes into the states; b may be NULL for one message only. */
typedef void ert_sha256_compress(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b,
                                 size_t blocks);
ert_sha256_compress ert_sha256_compress_portable;
ert_sha256_compress ert_sha256_compress_native; /* only where ert_cpu_has_sha256() */

#endif
