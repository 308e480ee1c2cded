/* Element types and shapes. */
#ifndef EDGERT_TOOLS_TENSOR_H
#define EDGERT_TOOLS_TENSOR_H

#include <stdbool.h>

#include "edgert/edgert.h"
#include "text.h"

const char *dtype_name(edgert_dtype dtype);  /* "f32" */
const char *dtype_descr(edgert_dtype dtype); /* as in npy files: "<f4" */
size_t dtype_bytes(edgert_dtype dtype);      /* of one element */
bool dtype_is_float(edgert_dtype dtype);

/* Elements of a shape whose size is known to be in range. */
size_t shape_elements(uint32_t rank, const int64_t *shape);

/* "[1,3,224,224]" */
text shape_text(uint32_t rank, const int64_t *shape);

/* Element `index` of an array, as near as a double comes. */
double element(edgert_dtype dtype, const void *data, size_t index);

#endif
