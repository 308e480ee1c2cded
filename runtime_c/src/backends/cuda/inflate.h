/* Raw DEFLATE streams (RFC 1951), from files that need not be well-formed. */
#ifndef ERT_BACKENDS_CUDA_INFLATE_H
#define ERT_BACKENDS_CUDA_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes a stream of exactly `stored` bytes to exactly `bytes` bytes at `to`. False if it is anything else; then what is at
 * `to` has no meaning. Reads and writes nothing beside. */
bool ert_inflate(const uint8_t *stream, size_t stored, uint8_t *to, size_t bytes);

#endif
