/* The combining functions of scatters. */
#include "kernels/combine.h"

#include <stddef.h>
#include <string.h>

#include "edgert/edgert.h"

const char *const ert_reduction_names[] = {"none", "add", "mul", "min", "max", NULL};

#define MIN(a, b)       ((b) < (a) ? (b) : (a))
#define MAX(a, b)       ((b) > (a) ? (b) : (a))
#define FLOAT_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define FLOAT_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

/* `wide` is the type the arithmetic is done in: unsigned, so that it wraps. */
#define LOOP(name, type, expression)                        \
  static void name(void *dst, const void *src, int64_t n) { \
    type *y = dst;                                          \
    const type *x = src;                                    \
    for (int64_t i = 0; i < n; ++i) {                       \
      const type a = y[i], b = x[i];                        \
      y[i] = (type)(expression);                            \
    }                                                       \
  }
#define INTEGER(suffix, type, wide)           \
  LOOP(add_##suffix, type, (wide)a + (wide)b) \
  LOOP(mul_##suffix, type, (wide)a *(wide)b)  \
  LOOP(min_##suffix, type, MIN(a, b))         \
  LOOP(max_##suffix, type, MAX(a, b))
#define COPY(suffix, type) \
  static void none_##suffix(void *dst, const void *src, int64_t n) { memcpy(dst, src, (size_t)n * sizeof(type)); }

INTEGER(u8, uint8_t, uint32_t)
INTEGER(i8, int8_t, uint32_t)
INTEGER(u16, uint16_t, uint32_t)
INTEGER(i16, int16_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(u64, uint64_t, uint64_t)
INTEGER(i64, int64_t, uint64_t)
LOOP(add_f32, float, a + b)
LOOP(mul_f32, float, a *b)
LOOP(min_f32, float, FLOAT_MIN(a, b))
LOOP(max_f32, float, FLOAT_MAX(a, b))
COPY(8, uint8_t)
COPY(16, uint16_t)
COPY(32, uint32_t)
COPY(64, uint64_t)

#define ROW(bits, suffix) {none_##bits, add_##suffix, mul_##suffix, min_##suffix, max_##suffix}
static const ert_combine table[][5] = {
    [EDGERT_F32] = ROW(32, f32), [EDGERT_U8] = ROW(8, u8),
    [EDGERT_I8] = ROW(8, i8),    [EDGERT_U16] = ROW(16, u16),
    [EDGERT_I16] = ROW(16, i16), [EDGERT_I32] = ROW(32, i32),
    [EDGERT_I64] = ROW(64, i64), [EDGERT_U32] = ROW(32, u32),
    [EDGERT_U64] = ROW(64, u64), [EDGERT_BOOL] = {none_8, max_u8, min_u8, min_u8, max_u8},
};

ert_combine ert_combine_of(ert_reduction reduction, uint8_t dtype) { return table[dtype][reduction]; }
