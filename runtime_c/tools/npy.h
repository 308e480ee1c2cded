/* Array files: numpy's .npy (https://numpy.org/neps/nep-0001-npy-format.html), and raw little-endian elements. */
#ifndef EDGERT_TOOLS_NPY_H
#define EDGERT_TOOLS_NPY_H

#include <stdbool.h>

#include "edgert/edgert.h"

/* Reads the array in the file at `path` into `data`, info->bytes bytes. A file called .npy must hold info's element
 * type and shape (of which a first dimension of 1 may be missing), any other exactly its bytes. False with an error
 * printed. */
bool array_read(const char *path, const edgert_tensor_info *info, void *data);

/* Writes a .npy file. False with an error printed. */
bool npy_write(const char *path, edgert_dtype dtype, uint32_t rank, const int64_t *shape, const void *data);

#endif
