/* Classes of element types, and one expansion for each type. */
#ifndef ERT_KERNELS_DTYPES_H
#define ERT_KERNELS_DTYPES_H

#include "base/kernel.h"

/* X(EDGERT_ name, C type) for the eight integer types. */
#define ERT_INTEGER_TYPES(X) \
  X(U8, uint8_t)             \
  X(I8, int8_t) X(U16, uint16_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t) X(U32, uint32_t) X(U64, uint64_t)

/* 'f' float32, 'i' signed integers, 'u' unsigned integers, 'b' bool. */
static inline char ert_dtype_letter(uint8_t dtype) {
  switch (dtype) {
    case EDGERT_F32:
      return 'f';
    case EDGERT_BOOL:
      return 'b';
    case EDGERT_I8:
    case EDGERT_I16:
    case EDGERT_I32:
    case EDGERT_I64:
      return 'i';
    default:
      return 'u';
  }
}

#endif
