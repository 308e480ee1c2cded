/* Order of numbers of any type as unsigned keys, and a heap of (key, index) pairs: greater keys first, ties by lower index. */
#ifndef ERT_KERNELS_RANKING_H
#define ERT_KERNELS_RANKING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct ert_ranked {
  uint64_t key;
  int64_t index;
} ert_ranked;

/* Whether a comes before b in the ranking. */
static inline bool ert_before(ert_ranked a, ert_ranked b) { return a.key != b.key ? a.key > b.key : a.index < b.index; }

/* Keys that grow with the value. Every NaN is the greatest number, and -0 equals +0. */
static inline uint64_t ert_key_f32(float value) {
  uint32_t bits;
  if (value != value) return UINT32_MAX;
  if (value == 0) return 0x80000000u;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
static inline uint64_t ert_key_signed(int64_t value) { return (uint64_t)value ^ ((uint64_t)1 << 63); }

/* Restores the heap below entry i. The root is the first of the ranking, or the last if `last_at_root`. */
static inline void ert_sift(ert_ranked *heap, int64_t n, int64_t i, bool last_at_root) {
  const ert_ranked moving = heap[i];
  for (int64_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && ert_before(heap[child + 1], heap[child]) != last_at_root) ++child;
    if (ert_before(heap[child], moving) == last_at_root) break;
    heap[i] = heap[child];
  }
  heap[i] = moving;
}

static inline void ert_heapify(ert_ranked *heap, int64_t n, bool last_at_root) {
  for (int64_t i = n / 2 - 1; i >= 0; --i) ert_sift(heap, n, i, last_at_root);
}

#endif
