/* Matrix transposition: tiles of 4x4 words or 2x2 double words in vector registers, single elements elsewhere. */
#include "kernels/transpose.h"

#include "kernels/rows.h"

typedef uint32_t word4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t double2 __attribute__((vector_size(16), aligned(8), may_alias));

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

/* Whole tiles, then the columns and the rows of the source that they leave. */
#define TILES(name, type, tile, singles, edge)                                                                        \
  static void name(type *restrict dst, int64_t dst_stride, const type *restrict src, int64_t src_stride,              \
                   int64_t width, int64_t n) {                                                                        \
    const int64_t tiled_width = width / edge * edge, tiled_n = n / edge * edge;                                       \
    for (int64_t i = 0; i < tiled_n; i += edge)                                                                       \
      for (int64_t j = 0; j < tiled_width; j += edge)                                                                 \
        tile(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride);                             \
    singles(dst + tiled_width * dst_stride, dst_stride, src + tiled_width, src_stride, width - tiled_width, tiled_n); \
    singles(dst + tiled_n, dst_stride, src + tiled_n * src_stride, src_stride, width, n - tiled_n);                   \
  }

TILES(tiled_words, ert_bits32, tile_words, single_words, 4)
TILES(tiled_doubles, ert_bits64, tile_doubles, single_doubles, 2)

void ert_transpose(void *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t width, int64_t n,
                   size_t size) {
  switch (size) {
    case 8:
      tiled_doubles(dst, dst_stride, src, src_stride, width, n);
      break;
    case 4:
      tiled_words(dst, dst_stride, src, src_stride, width, n);
      break;
    case 2:
      single_halves(dst, dst_stride, src, src_stride, width, n);
      break;
    default:
      single_bytes(dst, dst_stride, src, src_stride, width, n);
      break;
  }
}
