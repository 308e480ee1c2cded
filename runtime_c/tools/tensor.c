/* Element types and shapes. */
#include "tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *descr;
  size_t bytes;
} types[] = {
    [EDGERT_F32] = {"f32", "<f4", 4},   [EDGERT_U8] = {"u8", "|u1", 1},   [EDGERT_I8] = {"i8", "|i1", 1},
    [EDGERT_U16] = {"u16", "<u2", 2},   [EDGERT_I16] = {"i16", "<i2", 2}, [EDGERT_I32] = {"i32", "<i4", 4},
    [EDGERT_I64] = {"i64", "<i8", 8},   [EDGERT_U32] = {"u32", "<u4", 4}, [EDGERT_U64] = {"u64", "<u8", 8},
    [EDGERT_BOOL] = {"bool", "|b1", 1},
};

const char *dtype_name(edgert_dtype dtype) { return types[dtype].name; }

const char *dtype_descr(edgert_dtype dtype) { return types[dtype].descr; }

size_t dtype_bytes(edgert_dtype dtype) { return types[dtype].bytes; }

bool dtype_is_float(edgert_dtype dtype) { return dtype == EDGERT_F32; }

size_t shape_elements(uint32_t rank, const int64_t *shape) {
  size_t count = 1;
  for (uint32_t i = 0; i < rank; i++) count *= (size_t)shape[i];
  return count;
}

text shape_text(uint32_t rank, const int64_t *shape) {
  text t = {"["};
  size_t end = 1;
  for (uint32_t i = 0; i < rank; i++)
    end += (size_t)snprintf(t.s + end, sizeof t.s - end, "%s%" PRId64, i ? "," : "", shape[i]);
  snprintf(t.s + end, sizeof t.s - end, "]");
  return t;
}

#define LOAD(type)                                                           \
  do {                                                                       \
    type value;                                                              \
    memcpy(&value, (const char *)data + index * sizeof value, sizeof value); \
    return (double)value;                                                    \
  } while (0)

double element(edgert_dtype dtype, const void *data, size_t index) {
  switch (dtype) {
    case EDGERT_F32:
      LOAD(float);
    case EDGERT_U8:
    case EDGERT_BOOL:
      LOAD(uint8_t);
    case EDGERT_I8:
      LOAD(int8_t);
    case EDGERT_U16:
      LOAD(uint16_t);
    case EDGERT_I16:
      LOAD(int16_t);
    case EDGERT_I32:
      LOAD(int32_t);
    case EDGERT_I64:
      LOAD(int64_t);
    case EDGERT_U32:
      LOAD(uint32_t);
    case EDGERT_U64:
      LOAD(uint64_t);
    case EDGERT_F16:
    case EDGERT_BF16: /* of constants only */
      break;
  }
  return 0;
}
