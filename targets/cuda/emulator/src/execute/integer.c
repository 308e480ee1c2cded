/* Integer arithmetic and bits. Wrapping operations are those of unsigned integers for both signs. */
#include "execute/lanes.h"

#define ROWS(type)                            \
  const type *a = s[0], *b = s[1], *c = s[2]; \
  type *r = d;                                \
  (void)a, (void)b, (void)c;
#define WRAP(operation, bits, expression)                          \
  case CODE(operation, T_U##bits):                                 \
  case CODE(operation, T_S##bits): {                               \
    ROWS(uint##bits##_t) EACH r[i] = (uint##bits##_t)(expression); \
    return;                                                        \
  }
#define WRAP_ALL(operation, expression) \
  WRAP(operation, 16, expression) WRAP(operation, 32, expression) WRAP(operation, 64, expression)
#define TYPED(operation, T, type, expression)  \
  case CODE(operation, T): {                   \
    ROWS(type) EACH r[i] = (type)(expression); \
    return;                                    \
  }
#define SIGNED_ALL(operation, expression)      \
  TYPED(operation, T_S16, int16_t, expression) \
  TYPED(operation, T_S32, int32_t, expression) TYPED(operation, T_S64, int64_t, expression)
#define UNSIGNED_ALL(operation, expression)     \
  TYPED(operation, T_U16, uint16_t, expression) \
  TYPED(operation, T_U32, uint32_t, expression) TYPED(operation, T_U64, uint64_t, expression)
#define BOTH_ALL(operation, expression) SIGNED_ALL(operation, expression) UNSIGNED_ALL(operation, expression)

/* The high half of products: `wide` holds all of one. */
#define HIGH(T, type, wide, bits) TYPED(OP_MUL_HI, T, type, ((wide)a[i] * (wide)b[i]) >> bits)
#define HIGH_ADD(T, type, wide, unsigned_type, bits) \
  TYPED(OP_MAD_HI, T, type, (unsigned_type)(((wide)a[i] * (wide)b[i]) >> bits) + (unsigned_type)c[i])
#define WIDE(T, type, wide_type, unsigned_wide)                                             \
  case CODE(OP_MUL_WIDE, T): {                                                              \
    const type *a = s[0], *b = s[1];                                                        \
    wide_type *r = d;                                                                       \
    EACH r[i] = (wide_type)a[i] * (wide_type)b[i];                                          \
    return;                                                                                 \
  }                                                                                         \
  case CODE(OP_MAD_WIDE, T): {                                                              \
    const type *a = s[0], *b = s[1];                                                        \
    const unsigned_wide *c = s[2];                                                          \
    unsigned_wide *r = d;                                                                   \
    EACH r[i] = (unsigned_wide)((unsigned_wide)((wide_type)a[i] * (wide_type)b[i]) + c[i]); \
    return;                                                                                 \
  }

/* Shifts take a 32-bit amount whatever the type; what is beyond the width gives 0, or the sign. */
#define SHIFT(operation, T, type, bits, expression) \
  case CODE(operation, T): {                        \
    const type *a = s[0];                           \
    const uint32_t *b = s[1];                       \
    type *r = d;                                    \
    EACH {                                          \
      uint32_t n = b[i];                            \
      r[i] = (type)(expression);                    \
    }                                               \
    return;                                         \
  }
#define SHIFTS(bits)                                                              \
  SHIFT(OP_SHL, T_U##bits, uint##bits##_t, bits, n < bits ? 1ull * a[i] << n : 0) \
  SHIFT(OP_SHR, T_U##bits, uint##bits##_t, bits, n < bits ? a[i] >> n : 0)        \
  SHIFT(OP_SHR, T_S##bits, int##bits##_t, bits, a[i] >> (n < bits ? n : bits - 1))

static inline uint64_t low_bits(uint32_t count) { return count >= 64 ? UINT64_MAX : (1ull << count) - 1; }

static inline uint64_t extract(uint64_t a, uint32_t position, uint32_t length, uint32_t bits, bool negative) {
  position &= 255;
  length &= 255;
  uint64_t value = position < bits ? (a & low_bits(bits)) >> position & low_bits(length) : 0;
  if (!negative || length == 0) return value;
  uint32_t top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
  uint32_t have = position < bits ? (length < bits - position ? length : bits - position) : 0;
  return a >> top & 1 ? value | ~low_bits(have) : value;
}

static inline uint64_t insert(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t bits) {
  position &= 255;
  length &= 255;
  if (position >= bits) return b;
  uint64_t mask = low_bits(length) << position;
  return (b & ~mask) | (a << position & mask);
}

static inline uint32_t find_top(uint64_t a, uint32_t bits, bool shift) {
  if (a == 0) return 0xffffffff;
  uint32_t top = 63 - (uint32_t)__builtin_clzll(a);
  return shift ? bits - 1 - top : top;
}

static inline uint32_t reverse(uint32_t x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t r = 0;
  for (unsigned n = 0; n < 4; n++) {
    uint32_t which = selector >> (n * 4);
    uint32_t byte = (uint32_t)(bytes >> (which & 7) * 8) & 255;
    if (which & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (n * 8);
  }
  return r;
}

static inline uint32_t logic(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t r = 0;
  if (table & 1) r |= ~a & ~b & ~c;
  if (table & 2) r |= ~a & ~b & c;
  if (table & 4) r |= ~a & b & ~c;
  if (table & 8) r |= ~a & b & c;
  if (table & 16) r |= a & ~b & ~c;
  if (table & 32) r |= a & ~b & c;
  if (table & 64) r |= a & b & ~c;
  if (table & 128) r |= a & b & c;
  return r;
}

static inline uint32_t dot(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (unsigned n = 0; n < 32; n += 8) {
    int32_t x = a_signed ? (int8_t)(a >> n) : (uint8_t)(a >> n), y = b_signed ? (int8_t)(b >> n) : (uint8_t)(b >> n);
    c += (uint32_t)(x * y);
  }
  return c;
}

static inline int32_t clamp32(int64_t x) {
  return (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}

static inline int64_t extend24(int32_t x) { return (int32_t)((uint32_t)x << 8) >> 8; }

/* Sums of int32 that stay at the limits. */
static void saturated(const ptx_instruction *p, void *d, const void *const s[4]) {
  ROWS(int32_t)
  unsigned operation = p->code / 16;
  EACH {
    int64_t x = a[i], y = b[i];
    r[i] = operation == OP_ADD ? clamp32(x + y) : operation == OP_SUB ? clamp32(x - y) : clamp32((x * y >> 32) + c[i]);
  }
}

/* Instructions whose operands have various widths. */
static bool mixed(const ptx_instruction *p, void *d, const void *const s[4]) {
  const uint32_t *a = s[0], *b = s[1], *c = s[2], *e = s[3];
  const uint64_t *a64 = s[0], *b64 = s[1];
  uint32_t *r = d;
  uint64_t *r64 = d;
  bool flag = p->flags & FLAG_SHIFT, wrap = p->flags & FLAG_WRAP;
  switch (p->code) {
    case CODE(OP_BFE, T_U32):
      EACH r[i] = (uint32_t)extract(a[i], b[i], c[i], 32, false);
      return true;
    case CODE(OP_BFE, T_S32):
      EACH r[i] = (uint32_t)extract(a[i], b[i], c[i], 32, true);
      return true;
    case CODE(OP_BFE, T_U64):
      EACH r64[i] = extract(a64[i], b[i], c[i], 64, false);
      return true;
    case CODE(OP_BFE, T_S64):
      EACH r64[i] = extract(a64[i], b[i], c[i], 64, true);
      return true;
    case CODE(OP_BFI, T_U32):
      EACH r[i] = (uint32_t)insert(a[i], b[i], c[i], e[i], 32);
      return true;
    case CODE(OP_BFI, T_U64):
      EACH r64[i] = insert(a64[i], b64[i], c[i], e[i], 64);
      return true;
    case CODE(OP_BFIND, T_U32):
      EACH r[i] = find_top(a[i], 32, flag);
      return true;
    case CODE(OP_BFIND, T_S32):
      EACH r[i] = find_top(a[i] >> 31 ? ~a[i] : a[i], 32, flag);
      return true;
    case CODE(OP_BFIND, T_U64):
      EACH r[i] = find_top(a64[i], 64, flag);
      return true;
    case CODE(OP_BFIND, T_S64):
      EACH r[i] = find_top(a64[i] >> 63 ? ~a64[i] : a64[i], 64, flag);
      return true;
    case CODE(OP_BREV, T_U32):
      EACH r[i] = reverse(a[i]);
      return true;
    case CODE(OP_BREV, T_U64):
      EACH r64[i] = (uint64_t)reverse((uint32_t)a64[i]) << 32 | reverse((uint32_t)(a64[i] >> 32));
      return true;
    case CODE(OP_POPC, T_U32):
      EACH r[i] = (uint32_t)__builtin_popcount(a[i]);
      return true;
    case CODE(OP_POPC, T_U64):
      EACH r[i] = (uint32_t)__builtin_popcountll(a64[i]);
      return true;
    case CODE(OP_CLZ, T_U32):
      EACH r[i] = a[i] ? (uint32_t)__builtin_clz(a[i]) : 32;
      return true;
    case CODE(OP_CLZ, T_U64):
      EACH r[i] = a64[i] ? (uint32_t)__builtin_clzll(a64[i]) : 64;
      return true;
    case CODE(OP_PRMT, T_U32):
      EACH r[i] = permute(a[i], b[i], c[i]);
      return true;
    case CODE(OP_LOP3, T_U32):
      EACH r[i] = logic(a[i], b[i], c[i], e[0]);
      return true;
    case CODE(OP_SHF_L, T_U32):
    case CODE(OP_SHF_R, T_U32): {
      bool left = p->code == CODE(OP_SHF_L, T_U32);
      EACH {
        uint64_t both = (uint64_t)b[i] << 32 | a[i];
        uint32_t n = wrap ? c[i] & 31 : c[i] < 32 ? c[i] : 32;
        r[i] = left ? (uint32_t)(both << n >> 32) : (uint32_t)(both >> n);
      }
      return true;
    }
    case CODE(OP_DP4A, T_U32):
    case CODE(OP_DP4A, T_S32):
      EACH r[i] = dot(a[i], b[i], c[i], p->code % 16 == T_S32, p->second == T_S32);
      return true;
    default:
      return false;
  }
}

static void multiply24(const ptx_instruction *p, void *d, const void *const s[4]) {
  const int32_t *a = s[0], *b = s[1];
  const uint32_t *c = s[2];
  uint32_t *r = d;
  bool has_sign = p->code % 16 == T_S32, add = p->code / 16 == OP_MAD24;
  unsigned shift = p->mode == MODE_HI ? 16 : 0;
  EACH {
    int64_t x = has_sign ? extend24(a[i]) : a[i] & 0xffffff, y = has_sign ? extend24(b[i]) : b[i] & 0xffffff;
    r[i] = (uint32_t)(x * y >> shift) + (add ? c[i] : 0);
  }
}

EMU_CLONES void emu_integer(const ptx_instruction *p, void *d, void *q, const void *const s[4]) {
  (void)q;
  if (p->flags & FLAG_SAT) {
    saturated(p, d, s);
    return;
  }
  switch (p->code) {
    WRAP_ALL(OP_ADD, a[i] + b[i])
    WRAP_ALL(OP_SUB, a[i] - b[i])
    WRAP_ALL(OP_MUL, 1u * a[i] * b[i])
    WRAP_ALL(OP_MAD, 1u * a[i] * b[i] + c[i])
    WRAP_ALL(OP_NEG, 0u - a[i])
    WRAP_ALL(OP_AND, a[i] & b[i])
    WRAP_ALL(OP_OR, a[i] | b[i])
    WRAP_ALL(OP_XOR, a[i] ^ b[i])
    WRAP_ALL(OP_NOT, ~a[i])
    WRAP_ALL(OP_CNOT, a[i] == 0)
    BOTH_ALL(OP_MIN, a[i] < b[i] ? a[i] : b[i])
    BOTH_ALL(OP_MAX, a[i] > b[i] ? a[i] : b[i])
    SIGNED_ALL(OP_ABS, a[i] < 0 ? 0u - (uint64_t)a[i] : (uint64_t)a[i])
    UNSIGNED_ALL(OP_ABS, a[i])
    BOTH_ALL(OP_SAD, (uint64_t)c[i] + (a[i] > b[i] ? (uint64_t)a[i] - (uint64_t)b[i] : (uint64_t)b[i] - (uint64_t)a[i]))
    UNSIGNED_ALL(OP_DIV, b[i] ? (uint64_t)a[i] / b[i] : UINT64_MAX)
    UNSIGNED_ALL(OP_REM, b[i] ? a[i] % b[i] : a[i])
    SIGNED_ALL(OP_DIV, b[i] == 0 ? UINT64_MAX : b[i] == -1 ? 0u - (uint64_t)a[i] : (uint64_t)(a[i] / b[i]))
    SIGNED_ALL(OP_REM, (int64_t)(b[i] == 0 ? a[i] : b[i] == -1 ? 0 : a[i] % b[i]))
    HIGH(T_U16, uint16_t, uint32_t, 16)
    HIGH(T_S16, int16_t, int32_t, 16)
    HIGH(T_U32, uint32_t, uint64_t, 32)
    HIGH(T_S32, int32_t, int64_t, 32)
    HIGH(T_U64, uint64_t, unsigned __int128, 64)
    HIGH(T_S64, int64_t, __int128, 64)
    HIGH_ADD(T_U16, uint16_t, uint32_t, uint16_t, 16)
    HIGH_ADD(T_S16, int16_t, int32_t, uint16_t, 16)
    HIGH_ADD(T_U32, uint32_t, uint64_t, uint32_t, 32)
    HIGH_ADD(T_S32, int32_t, int64_t, uint32_t, 32)
    HIGH_ADD(T_U64, uint64_t, unsigned __int128, uint64_t, 64)
    HIGH_ADD(T_S64, int64_t, __int128, uint64_t, 64)
    WIDE(T_U16, uint16_t, uint32_t, uint32_t)
    WIDE(T_S16, int16_t, int32_t, uint32_t)
    WIDE(T_U32, uint32_t, uint64_t, uint64_t)
    WIDE(T_S32, int32_t, int64_t, uint64_t)
  SHIFTS(16) SHIFTS(32) SHIFTS(64) case CODE(OP_MUL24, T_U32):
  case CODE(OP_MUL24, T_S32):
  case CODE(OP_MAD24, T_U32):
  case CODE(OP_MAD24, T_S32):
    multiply24(p, d, s);
    return;
    default:
      mixed(p, d, s);
  }
}
