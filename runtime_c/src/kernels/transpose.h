/* Matrix transposition in small register tiles, the inner loop of strided copies. */
#ifndef ERT_KERNELS_TRANSPOSE_H
#define ERT_KERNELS_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* dst[j * dst_stride + i] = src[i * src_stride + j] for i < n and j < width, elements of `size` bytes (1, 2, 4, 8 or 16). */
void ert_transpose(void *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t width, int64_t n,
                   size_t size);

/* dst[4 j + i] = rows[i][j] for j < width. */
void ert_join_bytes(uint8_t *dst, const uint8_t *const rows[4], int64_t width);

#endif
