/* Element types and layouts: names and sizes. */
#ifndef ERT_BASE_DTYPE_H
#define ERT_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/kernel.h"

enum { ERT_DTYPE_COUNT = 13, ERT_LAYOUT_COUNT = 4 };

/* Bytes of one element; 0 for a number that is no element type. */
size_t ert_dtype_bytes(uint8_t dtype);

/* Whether it is a type of constants only: f16 or bf16. */
bool ert_dtype_reduced(uint8_t dtype);

/* "f32", ...; "?" for a number that is no element type. */
const char *ert_dtype_name(uint8_t dtype);

const char *ert_layout_name(uint8_t layout);

/* Elements of a tensor and the bytes it occupies in `layout`, padding lanes included. False if the rank does not suit
 * the layout, a dimension is negative, or the bytes, with dimensions of 0 counted as 1, exceed 2^48: so no product of
 * dimensions overflows in the kernels, nor does one of byte offsets. */
bool ert_tensor_size(uint8_t dtype, uint8_t layout, uint32_t rank, const int64_t *shape, int64_t *elements,
                     size_t *bytes);

#endif
