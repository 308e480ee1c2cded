/* Integer, boolean and comparison forms of binary. */
#include "kernels/binary_integer.h"

#include "edgert/edgert.h"
#include "kernels/binary_kinds.h"

#define ROW(name, T, R, expression)                                                                             \
  static void name(const void *a_row, const void *b_row, void *y_row, size_t n, size_t a_step, size_t b_step) { \
    const T *a_at = a_row, *b_at = b_row;                                                                       \
    R *y = y_row;                                                                                               \
    for (size_t i = 0; i < n; i++) {                                                                            \
      const T a = a_at[i * a_step], b = b_at[i * b_step];                                                       \
      y[i] = (R)(expression);                                                                                   \
    }                                                                                                           \
  }

/* Kinds whose bits do not depend on the sign; arithmetic in 64 bits, so that no narrow type is promoted to int. */
#define SIGNLESS(T, W)                                    \
  ROW(add_##W, T, T, (uint64_t)a + b)                     \
  ROW(sub_##W, T, T, (uint64_t)a - b)                     \
  ROW(mul_##W, T, T, (uint64_t)a *b)                      \
  ROW(equal_##W, T, uint8_t, a == b)                      \
  ROW(and_##W, T, T, a &b)                                \
  ROW(or_##W, T, T, a | b)                                \
  ROW(xor_##W, T, T, a ^ b)                               \
  ROW(shift_left_##W, T, T, b < W ? (uint64_t)a << b : 0) \
  ROW(shift_right_##W, T, T, b < W ? (uint64_t)a >> b : 0)
SIGNLESS(uint8_t, 8)
SIGNLESS(uint16_t, 16)
SIGNLESS(uint32_t, 32)
SIGNLESS(uint64_t, 64)

#define ORDER(T, N)                       \
  ROW(less_##N, T, uint8_t, a < b)        \
  ROW(less_equal_##N, T, uint8_t, a <= b) \
  ROW(greater_##N, T, uint8_t, a > b)     \
  ROW(greater_equal_##N, T, uint8_t, a >= b)
#define ORDERED(T, N)                      \
  ORDER(T, N)                              \
  ROW(min_##N, T, T, a < b ? a : b)        \
  ROW(max_##N, T, T, a > b ? a : b)        \
  ROW(div_##N, T, T, quotient_##N(a, b))   \
  ROW(mod_##N, T, T, floored_##N(a, b))    \
  ROW(fmod_##N, T, T, remainder_##N(a, b)) \
  ROW(pow_##N, T, T, power_##N(a, b))      \
  ROW(prelu_##N, T, T, below_zero_##N(a) ? (T)((uint64_t)a * (uint64_t)b) : a)

#define UNSIGNED(T, N)                                                   \
  static inline T quotient_##N(T a, T b) { return (T)(b ? a / b : 0); }  \
  static inline T remainder_##N(T a, T b) { return (T)(b ? a % b : 0); } \
  static inline T floored_##N(T a, T b) { return remainder_##N(a, b); }  \
  static inline int below_zero_##N(T a) { return (void)a, 0; }           \
  static inline T power_##N(T a, T b) {                                  \
    uint64_t y = 1, base = a;                                            \
    for (uint64_t e = b; e; e >>= 1, base *= base)                       \
      if (e & 1) y *= base;                                              \
    return (T)y;                                                         \
  }                                                                      \
  ORDERED(T, N)
UNSIGNED(uint8_t, u8)
UNSIGNED(uint16_t, u16)
UNSIGNED(uint32_t, u32)
UNSIGNED(uint64_t, u64)

/* A divisor of -1 is apart because the lowest value over -1 traps. */
#define SIGNED(T, N)                                                                                          \
  static inline T quotient_##N(T a, T b) { return (T)(b == 0 ? 0 : b == -1 ? (T)(0 - (uint64_t)a) : a / b); } \
  static inline T remainder_##N(T a, T b) { return (T)(b == 0 || b == -1 ? 0 : a % b); }                      \
  static inline T floored_##N(T a, T b) {                                                                     \
    T r = remainder_##N(a, b);                                                                                \
    return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);                                                     \
  }                                                                                                           \
  static inline int below_zero_##N(T a) { return a < 0; }                                                     \
  static inline T power_##N(T a, T b) {                                                                       \
    if (b < 0) return a == 1 ? (T)1 : a == -1 ? (T)(b % 2 ? -1 : 1) : (T)0;                                   \
    return (T)power_u64((uint64_t)a, (uint64_t)b);                                                            \
  }                                                                                                           \
  ORDERED(T, N)
SIGNED(int8_t, i8)
SIGNED(int16_t, i16)
SIGNED(int32_t, i32)
SIGNED(int64_t, i64)

ROW(equal_f32, float, uint8_t, a == b)
ORDER(float, f32)

#define BY_WIDTH(f) {f##_8, f##_16, f##_32, f##_64}
#define BY_TYPE(f)                                                                                 \
  {[EDGERT_U8] = f##_u8,   [EDGERT_I8] = f##_i8,   [EDGERT_U16] = f##_u16, [EDGERT_I16] = f##_i16, \
   [EDGERT_I32] = f##_i32, [EDGERT_I64] = f##_i64, [EDGERT_U32] = f##_u32, [EDGERT_U64] = f##_u64}
#define BY_TYPE_AND_FLOAT(f)                                               \
  {[EDGERT_F32] = f##_f32, [EDGERT_U8] = f##_u8,   [EDGERT_I8] = f##_i8,   \
   [EDGERT_U16] = f##_u16, [EDGERT_I16] = f##_i16, [EDGERT_I32] = f##_i32, \
   [EDGERT_I64] = f##_i64, [EDGERT_U32] = f##_u32, [EDGERT_U64] = f##_u64}

static const ert_binary_row by_width[ERT_BINARY_KIND_COUNT][4] = {
    [ERT_BINARY_ADD] = BY_WIDTH(add),
    [ERT_BINARY_SUB] = BY_WIDTH(sub),
    [ERT_BINARY_MUL] = BY_WIDTH(mul),
    [ERT_BINARY_EQUAL] = BY_WIDTH(equal),
    [ERT_BINARY_AND] = BY_WIDTH(and),
    [ERT_BINARY_OR] = BY_WIDTH(or),
    [ERT_BINARY_XOR] = BY_WIDTH(xor),
    [ERT_BINARY_BITWISE_AND] = BY_WIDTH(and),
    [ERT_BINARY_BITWISE_OR] = BY_WIDTH(or),
    [ERT_BINARY_BITWISE_XOR] = BY_WIDTH(xor),
    [ERT_BINARY_SHIFT_LEFT] = BY_WIDTH(shift_left),
    [ERT_BINARY_SHIFT_RIGHT] = BY_WIDTH(shift_right),
};

static const ert_binary_row by_type[ERT_BINARY_KIND_COUNT][EDGERT_BOOL + 1] = {
    [ERT_BINARY_DIV] = BY_TYPE(div),
    [ERT_BINARY_MOD] = BY_TYPE(mod),
    [ERT_BINARY_FMOD] = BY_TYPE(fmod),
    [ERT_BINARY_POW] = BY_TYPE(pow),
    [ERT_BINARY_MIN] = BY_TYPE(min),
    [ERT_BINARY_MAX] = BY_TYPE(max),
    [ERT_BINARY_PRELU] = BY_TYPE(prelu),
    [ERT_BINARY_EQUAL] = {[EDGERT_F32] = equal_f32},
    [ERT_BINARY_LESS] = BY_TYPE_AND_FLOAT(less),
    [ERT_BINARY_LESS_EQUAL] = BY_TYPE_AND_FLOAT(less_equal),
    [ERT_BINARY_GREATER] = BY_TYPE_AND_FLOAT(greater),
    [ERT_BINARY_GREATER_EQUAL] = BY_TYPE_AND_FLOAT(greater_equal),
};

ert_binary_row ert_binary_row_find(int kind, int dtype) {
  if (by_type[kind][dtype]) return by_type[kind][dtype];
  switch (dtype) {
    case EDGERT_U8:
    case EDGERT_I8:
    case EDGERT_BOOL:
      return by_width[kind][0];
    case EDGERT_U16:
    case EDGERT_I16:
      return by_width[kind][1];
    case EDGERT_U32:
    case EDGERT_I32:
      return by_width[kind][2];
    case EDGERT_U64:
    case EDGERT_I64:
      return by_width[kind][3];
    default:
      return NULL;
  }
}
