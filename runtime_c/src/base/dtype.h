/* Element types and layouts: names and sizes. */
#ifndef ERT_BASE_DTYPE_H
#define ERT_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/kernel.h"

enum { ERT_DTYPE_COUNT = 13, ERT_LAYOUT_COUNT = 5 };

/* Bytes of one element; 0 for a number that is no element type. */
size_t ert_dtype_bytes(uint8_t dtype);

/* Whether it is a type of constants, and on devices, only: f16 or bf16. */
bool ert_dtype_reduced(uint8_t dtype);

/* "f32", ...; "?" for a number that is no element type. */
const char *ert_dtype_name(uint8_t dtype);

const char *ert_layout_name(uint8_t layout);

/* The extent that dimension i of a tensor in layout planes has in memory: with the zeros of its halo {top, left, bottom,
 * right}, or that of the shape if `halo` is all 0 or NULL. Extents are at most 2^48, halos 2^16. */
int64_t ert_planes_extent(const int64_t *shape, const uint32_t *halo, uint32_t i);

/* Elements of a tensor and the bytes it occupies in `layout`, padding lanes and halos included; `halo` as above, NULL in
 * other layouts. False if the rank does not suit the layout (4 with a halo), a dimension is negative, or the bytes, with
 * extents of 0 in memory counted as 1, exceed 2^48: so no product of dimensions overflows in the kernels, nor does one of byte
 * offsets. */
bool ert_tensor_size(uint8_t dtype, uint8_t layout, uint32_t rank, const int64_t *shape, const uint32_t *halo,
                     int64_t *elements, size_t *bytes);

#endif
