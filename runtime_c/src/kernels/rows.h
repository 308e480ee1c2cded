/* Moving runs of bytes whatever their element type: fixed small sizes without a call, long ones by memcpy. */
#ifndef ERT_KERNELS_ROWS_H
#define ERT_KERNELS_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Elements by size alone; they may alias anything, and be several smaller ones. */
typedef uint8_t ert_bits8 __attribute__((may_alias));
typedef uint16_t ert_bits16 __attribute__((may_alias, aligned(1)));
typedef uint32_t ert_bits32 __attribute__((may_alias, aligned(1)));
typedef uint64_t ert_bits64 __attribute__((may_alias, aligned(1)));
typedef uint64_t ert_bits128 __attribute__((vector_size(16), may_alias, aligned(1)));

/* Expands `DO(type)` with the type of elements of `size` bytes: 1, 2, 4 or 8. */
#define ERT_BY_SIZE(size, DO) \
  switch (size) {             \
    case 1:                   \
      DO(ert_bits8) break;    \
    case 2:                   \
      DO(ert_bits16) break;   \
    case 4:                   \
      DO(ert_bits32) break;   \
    default:                  \
      DO(ert_bits64) break;   \
  }

/* One run; the usual small sizes become plain moves. */
static inline void ert_copy_run(void *dst, const void *src, size_t bytes) {
  switch (bytes) {
    case 1:
      memcpy(dst, src, 1);
      break;
    case 2:
      memcpy(dst, src, 2);
      break;
    case 4:
      memcpy(dst, src, 4);
      break;
    case 8:
      memcpy(dst, src, 8);
      break;
    case 12:
      memcpy(dst, src, 12);
      break;
    case 16:
      memcpy(dst, src, 16);
      break;
    case 32:
      memcpy(dst, src, 32);
      break;
    case 64:
      memcpy(dst, src, 64);
      break;
    default:
      memcpy(dst, src, bytes);
      break;
  }
}

/* `rows` runs of `bytes` bytes; strides in bytes, negative and (for the source) zero allowed. */
static inline void ert_copy_rows(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride, int64_t rows,
                                 size_t bytes) {
  char *d = dst;
  const char *s = src;
#define ROWS(size)                                                                         \
  for (int64_t r = 0; r < rows; ++r, d += dst_stride, s += src_stride) memcpy(d, s, size); \
  break;
  switch (bytes) {
    case 1:
      ROWS(1)
    case 2:
      ROWS(2)
    case 4:
      ROWS(4)
    case 8:
      ROWS(8)
    case 12:
      ROWS(12)
    case 16:
      ROWS(16)
    case 32:
      ROWS(32)
    case 64:
      ROWS(64)
    default:
      ROWS(bytes)
  }
#undef ROWS
}

/* `rows` runs, `stride` bytes apart, of `n` elements of `size` bytes, all equal to the one at `value`. */
static inline void ert_fill_rows(void *dst, ptrdiff_t stride, const void *value, size_t size, int64_t rows, int64_t n) {
  char *to = dst;
#define FILL(type)                                     \
  {                                                    \
    const type v = *(const type *)value;               \
    for (int64_t r = 0; r < rows; ++r, to += stride) { \
      type *d = (type *)(void *)to;                    \
      d[0] = v;                                        \
      for (int64_t i = 1; i < n; ++i) d[i] = v;        \
    }                                                  \
  }
  if (n > 0) ERT_BY_SIZE(size, FILL)
#undef FILL
}

static inline void ert_fill(void *dst, const void *value, size_t size, int64_t n) {
  ert_fill_rows(dst, 0, value, size, 1, n);
}

#endif
