/* Matrix transposition: tiles of 16x16 or 8x8 bytes, 4x4 words or 2x2 double words in vector registers, single elements
 * elsewhere. */
#include "kernels/transpose.h"

#include "kernels/rows.h"

typedef uint32_t word4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t double2 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t byte16 __attribute__((vector_size(16), aligned(1), may_alias));

static inline void tile_words(ert_bits32 *dst, int64_t dst_stride, const ert_bits32 *src, int64_t src_stride) {
  word4 a = *(const word4 *)src, b = *(const word4 *)(src + src_stride);
  word4 c = *(const word4 *)(src + 2 * src_stride), d = *(const word4 *)(src + 3 * src_stride);
  word4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  word4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *(word4 *)dst = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
  *(word4 *)(dst + dst_stride) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
  *(word4 *)(dst + 2 * dst_stride) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
  *(word4 *)(dst + 3 * dst_stride) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

static inline void tile_doubles(ert_bits64 *dst, int64_t dst_stride, const ert_bits64 *src, int64_t src_stride) {
  double2 a = *(const double2 *)src, b = *(const double2 *)(src + src_stride);
  *(double2 *)dst = __builtin_shufflevector(a, b, 0, 2);
  *(double2 *)(dst + dst_stride) = __builtin_shufflevector(a, b, 1, 3);
}

#define BYTES_LOW(a, b)  __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define BYTES_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* Four times each of the first half of the rows is interleaved with its counterpart of the second half. */
static inline void tile_bytes(ert_bits8 *dst, int64_t dst_stride, const ert_bits8 *src, int64_t src_stride) {
  byte16 rows[16], mixed[16];
  for (int i = 0; i < 16; i++) rows[i] = *(const byte16 *)(src + i * src_stride);
#pragma GCC unroll 4
  for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      mixed[2 * i] = BYTES_LOW(rows[i], rows[i + 8]);
      mixed[2 * i + 1] = BYTES_HIGH(rows[i], rows[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) rows[i] = mixed[i];
  }
  for (int i = 0; i < 16; i++) *(byte16 *)(dst + i * dst_stride) = rows[i];
}

/* The same of 8 rows of 8 bytes, two in a vector: first each with its counterpart. */
static inline void tile_few_bytes(ert_bits8 *dst, int64_t dst_stride, const ert_bits8 *src, int64_t src_stride) {
  byte16 pairs[4], mixed[4];
  for (int i = 0; i < 4; i++) {
    const double2 both = {*(const ert_bits64 *)(src + i * src_stride),
                          *(const ert_bits64 *)(src + (i + 4) * src_stride)};
    pairs[i] = BYTES_LOW((byte16)both, (byte16)__builtin_shufflevector(both, both, 1, 0));
  }
#pragma GCC unroll 2
  for (int round = 0; round < 2; round++) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      mixed[2 * i] = BYTES_LOW(pairs[i], pairs[i + 2]);
      mixed[2 * i + 1] = BYTES_HIGH(pairs[i], pairs[i + 2]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) pairs[i] = mixed[i];
  }
  for (int i = 0; i < 4; i++) {
    const double2 both = (double2)pairs[i];
    *(ert_bits64 *)(dst + 2 * i * dst_stride) = both[0], *(ert_bits64 *)(dst + (2 * i + 1) * dst_stride) = both[1];
  }
}

void ert_join_bytes(uint8_t *dst, const uint8_t *const rows[4], int64_t width) {
  const uint8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  int64_t j = 0;
  for (; j + 16 <= width; j += 16, dst += 64) {
    const byte16 x = *(const byte16 *)(a + j), y = *(const byte16 *)(b + j);
    const byte16 z = *(const byte16 *)(c + j), w = *(const byte16 *)(d + j);
    const byte16 even = BYTES_LOW(x, z), odd = BYTES_LOW(y, w), even2 = BYTES_HIGH(x, z), odd2 = BYTES_HIGH(y, w);
    *(byte16 *)dst = BYTES_LOW(even, odd), *(byte16 *)(dst + 16) = BYTES_HIGH(even, odd);
    *(byte16 *)(dst + 32) = BYTES_LOW(even2, odd2), *(byte16 *)(dst + 48) = BYTES_HIGH(even2, odd2);
  }
  for (; j < width; ++j, dst += 4) dst[0] = a[j], dst[1] = b[j], dst[2] = c[j], dst[3] = d[j];
}

/* Element by element: matrices of 2 or 3 rows, which interleaved images and depth-to-space are, in loops of their own. */
#define SINGLES(name, type)                                                                                    \
  static void name(type *restrict dst, int64_t dst_stride, const type *restrict src, int64_t src_stride,       \
                   int64_t width, int64_t n) {                                                                 \
    if (n == 2) {                                                                                              \
      for (int64_t j = 0; j < width; ++j, ++src, dst += dst_stride) dst[0] = src[0], dst[1] = src[src_stride]; \
    } else if (n == 3) {                                                                                       \
      for (int64_t j = 0; j < width; ++j, ++src, dst += dst_stride)                                            \
        dst[0] = src[0], dst[1] = src[src_stride], dst[2] = src[2 * src_stride];                               \
    } else {                                                                                                   \
      for (int64_t i = 0; i < n; ++i)                                                                          \
        for (int64_t j = 0; j < width; ++j) dst[j * dst_stride + i] = src[i * src_stride + j];                 \
    }                                                                                                          \
  }

SINGLES(single_bytes, ert_bits8)
SINGLES(single_halves, ert_bits16)
SINGLES(single_words, ert_bits32)
SINGLES(single_doubles, ert_bits64)
SINGLES(single_quads, ert_bits128)

/* Words of two interleaved channels to planes `dst_stride` apart. */
static void split_two(ert_bits32 *restrict dst, int64_t dst_stride, const ert_bits32 *restrict src, int64_t n) {
  ert_bits32 *x = dst, *y = dst + dst_stride;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4, src += 8) {
    const word4 a = *(const word4 *)src, b = *(const word4 *)(src + 4);
    *(word4 *)(x + i) = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    *(word4 *)(y + i) = __builtin_shufflevector(a, b, 1, 3, 5, 7);
  }
  for (; i < n; ++i, src += 2) x[i] = src[0], y[i] = src[1];
}

/* Words of three interleaved channels to planes `dst_stride` apart. */
static void split_three(ert_bits32 *restrict dst, int64_t dst_stride, const ert_bits32 *restrict src, int64_t n) {
  ert_bits32 *x = dst, *y = dst + dst_stride, *z = y + dst_stride;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4, src += 12) {
    const word4 a = *(const word4 *)src, b = *(const word4 *)(src + 4), c = *(const word4 *)(src + 8);
    const word4 ab = __builtin_shufflevector(a, b, 0, 3, 6, 6), bc = __builtin_shufflevector(b, c, 0, 3, 6, 6);
    const word4 zz = __builtin_shufflevector(a, b, 2, 5, 2, 5);
    *(word4 *)(x + i) = __builtin_shufflevector(ab, c, 0, 1, 2, 5);
    *(word4 *)(y + i) = __builtin_shufflevector(a, bc, 1, 4, 5, 6);
    *(word4 *)(z + i) = __builtin_shufflevector(zz, c, 0, 1, 4, 7);
  }
  for (; i < n; ++i, src += 3) x[i] = src[0], y[i] = src[1], z[i] = src[2];
}

/* Words of two rows `src_stride` apart, interleaved. */
static void join_two(ert_bits32 *restrict dst, const ert_bits32 *restrict src, int64_t src_stride, int64_t width) {
  const ert_bits32 *x = src, *y = src + src_stride;
  int64_t j = 0;
  for (; j + 4 <= width; j += 4, dst += 8) {
    const word4 a = *(const word4 *)(x + j), b = *(const word4 *)(y + j);
    *(word4 *)dst = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    *(word4 *)(dst + 4) = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  }
  for (; j < width; ++j, dst += 2) dst[0] = x[j], dst[1] = y[j];
}

enum {
  CHUNK = 64,
  BLOCK = 16,  /* words of a cache line */
  ALIKE = 512, /* rows a multiple of so many words apart share few places in the first cache */
};

/* The largest power of two that divides a distance: the larger, the fewer places in a cache have rows so far apart. */
static inline int64_t power_in(int64_t stride) { return stride & -stride; }

/* Blocks whose rows are cache lines, by way of a buffer: each line of either side is visited once, whatever others it shares
 * its place in the cache with. */
static void block_words(ert_bits32 *restrict dst, int64_t dst_stride, const ert_bits32 *restrict src,
                        int64_t src_stride) {
  ert_bits32 block[BLOCK * BLOCK];
  for (int64_t i = 0; i < BLOCK; i += 4)
    for (int64_t j = 0; j < BLOCK; j += 4)
      tile_words(block + j * BLOCK + i, BLOCK, src + i * src_stride + j, src_stride);
  for (int64_t j = 0; j < BLOCK; j++) memcpy(dst + j * dst_stride, block + j * BLOCK, BLOCK * sizeof *dst);
}

/* Whole tiles, then the columns and the rows of the source that they leave. Tiles follow one another along the rows
 * that share more places in the cache, in chunks, so that cache lines are complete before they are left. */
#define TILES(name, type, tile, singles, edge)                                                                        \
  static void name(type *restrict dst, int64_t dst_stride, const type *restrict src, int64_t src_stride,              \
                   int64_t width, int64_t n) {                                                                        \
    const int64_t tiled_width = width / edge * edge, tiled_n = n / edge * edge;                                       \
    if (power_in(dst_stride) >= power_in(src_stride)) {                                                               \
      for (int64_t chunk = 0; chunk < tiled_n; chunk += CHUNK)                                                        \
        for (int64_t j = 0; j < tiled_width; j += edge)                                                               \
          for (int64_t i = chunk; i < tiled_n && i < chunk + CHUNK; i += edge)                                        \
            tile(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride);                         \
    } else {                                                                                                          \
      for (int64_t chunk = 0; chunk < tiled_width; chunk += CHUNK)                                                    \
        for (int64_t i = 0; i < tiled_n; i += edge)                                                                   \
          for (int64_t j = chunk; j < tiled_width && j < chunk + CHUNK; j += edge)                                    \
            tile(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride);                         \
    }                                                                                                                 \
    singles(dst + tiled_width * dst_stride, dst_stride, src + tiled_width, src_stride, width - tiled_width, tiled_n); \
    singles(dst + tiled_n, dst_stride, src + tiled_n * src_stride, src_stride, width, n - tiled_n);                   \
  }

TILES(tiled_few_bytes, ert_bits8, tile_few_bytes, single_bytes, 8)
TILES(tiled_bytes, ert_bits8, tile_bytes, tiled_few_bytes, 16)
TILES(tiled_words, ert_bits32, tile_words, single_words, 4)
TILES(tiled_doubles, ert_bits64, tile_doubles, single_doubles, 2)

/* Whole blocks, then the columns and the rows of the source that they leave. */
static void blocked_words(ert_bits32 *restrict dst, int64_t dst_stride, const ert_bits32 *restrict src,
                          int64_t src_stride, int64_t width, int64_t n) {
  const int64_t whole_width = width / BLOCK * BLOCK, whole_n = n / BLOCK * BLOCK;
  for (int64_t i = 0; i < whole_n; i += BLOCK)
    for (int64_t j = 0; j < whole_width; j += BLOCK)
      block_words(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride);
  tiled_words(dst + whole_width * dst_stride, dst_stride, src + whole_width, src_stride, width - whole_width, whole_n);
  tiled_words(dst + whole_n, dst_stride, src + whole_n * src_stride, src_stride, width, n - whole_n);
}

void ert_transpose(void *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t width, int64_t n,
                   size_t size) {
  switch (size) {
    case 16:
      single_quads(dst, dst_stride, src, src_stride, width, n);
      break;
    case 8:
      tiled_doubles(dst, dst_stride, src, src_stride, width, n);
      break;
    case 4:
      if (width == 2 && src_stride == 2)
        split_two(dst, dst_stride, src, n);
      else if (width == 3 && src_stride == 3)
        split_three(dst, dst_stride, src, n);
      else if (n == 2 && dst_stride == 2)
        join_two(dst, src, src_stride, width);
      else if (dst_stride % ALIKE == 0 && src_stride % ALIKE == 0)
        blocked_words(dst, dst_stride, src, src_stride, width, n);
      else
        tiled_words(dst, dst_stride, src, src_stride, width, n);
      break;
    case 2:
      single_halves(dst, dst_stride, src, src_stride, width, n);
      break;
    default:
      tiled_bytes(dst, dst_stride, src, src_stride, width, n);
      break;
  }
}
