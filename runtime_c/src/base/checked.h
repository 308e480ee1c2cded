/* Arithmetic on sizes that come from files or callers: every such sum, product and range test goes through here. */
#ifndef ERT_BASE_CHECKED_H
#define ERT_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether [offset, offset + count) lies within [0, length). */
static inline bool ert_within(uint64_t offset, uint64_t count, uint64_t length) {
  return offset <= length && count <= length - offset;
}

/* *out = a + b; false if it overflows. */
static inline bool ert_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

/* *out = a * b; false if it overflows. */
static inline bool ert_multiply(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

/* *out = the least multiple of `unit`, a power of two, that is not below a; false if it overflows. */
static inline bool ert_align_up(size_t a, size_t unit, size_t *out) {
  if (!ert_add(a, unit - 1, out)) return false;
  *out &= ~(unit - 1);
  return true;
}

/* *at = where n elements of `size` bytes have room behind *end, on a line of the cache, and *end goes behind them; false if
 * it overflows. */
static inline bool ert_reserve(size_t *end, size_t n, size_t size, size_t *at) {
  size_t bytes;
  return ert_align_up(*end, 64, at) && ert_multiply(n, size, &bytes) && ert_add(*at, bytes, end);
}

#endif
