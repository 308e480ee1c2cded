/* Comparisons and the logic of predicates: 32 lanes are the bits of a word. */
#include <math.h>
#include <string.h>

#include "execute/lanes.h"

#define COLLECT(condition)                \
  do {                                    \
    uint32_t m = 0;                       \
    EACH m |= (uint32_t)(condition) << i; \
    return m;                             \
  } while (0)

/* Where a NaN holds for nothing. */
#define IN_ORDER           \
  case CMP_EQ:             \
    COLLECT(a[i] == b[i]); \
  case CMP_LT:             \
    COLLECT(a[i] < b[i]);  \
  case CMP_LE:             \
    COLLECT(a[i] <= b[i]); \
  case CMP_GT:             \
    COLLECT(a[i] > b[i]);  \
  case CMP_GE:             \
    COLLECT(a[i] >= b[i]);

#define INTEGERS(name, type)                                                    \
  EMU_CLONES static uint32_t name(unsigned how, const void *x, const void *y) { \
    const type *a = x, *b = y;                                                  \
    switch (how) {                                                              \
      IN_ORDER                                                                  \
      default:                                                                  \
        COLLECT(a[i] != b[i]);                                                  \
    }                                                                           \
  }

#define FLOATS(name, type)                                                      \
  EMU_CLONES static uint32_t name(unsigned how, const void *x, const void *y) { \
    const type *a = x, *b = y;                                                  \
    switch (how) {                                                              \
      IN_ORDER                                                                  \
      case CMP_NE:                                                              \
        COLLECT(a[i] < b[i] || a[i] > b[i]);                                    \
      case CMP_EQU:                                                             \
        COLLECT(!(a[i] < b[i] || a[i] > b[i]));                                 \
      case CMP_NEU:                                                             \
        COLLECT(a[i] != b[i]);                                                  \
      case CMP_LTU:                                                             \
        COLLECT(!(a[i] >= b[i]));                                               \
      case CMP_LEU:                                                             \
        COLLECT(!(a[i] > b[i]));                                                \
      case CMP_GTU:                                                             \
        COLLECT(!(a[i] <= b[i]));                                               \
      case CMP_GEU:                                                             \
        COLLECT(!(a[i] < b[i]));                                                \
      case CMP_NUM:                                                             \
        COLLECT(a[i] == a[i] && b[i] == b[i]);                                  \
      default:                                                                  \
        COLLECT(a[i] != a[i] || b[i] != b[i]);                                  \
    }                                                                           \
  }

INTEGERS(compare_u16, uint16_t)
INTEGERS(compare_s16, int16_t)
INTEGERS(compare_u32, uint32_t)
INTEGERS(compare_s32, int32_t)
INTEGERS(compare_u64, uint64_t)
INTEGERS(compare_s64, int64_t)
FLOATS(compare_f32, float)
FLOATS(compare_f64, double)

static uint32_t compare_f16(unsigned how, const void *x, const void *y) {
  const uint16_t *a = x, *b = y;
  float u[EMU_WARP], v[EMU_WARP];
  EACH u[i] = emu_half_to_float(a[i]), v[i] = emu_half_to_float(b[i]);
  return compare_f32(how, u, v);
}

static uint32_t compare_flushed(unsigned how, const void *x, const void *y) {
  const float *a = x, *b = y;
  float u[EMU_WARP], v[EMU_WARP];
  EACH {
    u[i] = fabsf(a[i]) < 0x1p-126f ? 0.0f : a[i];
    v[i] = fabsf(b[i]) < 0x1p-126f ? 0.0f : b[i];
  }
  return compare_f32(how, u, v);
}

static uint32_t compare(const ptx_instruction *p, ptx_type type, const void *a, const void *b) {
  switch (type) {
    case T_U16:
      return compare_u16(p->compare, a, b);
    case T_S16:
      return compare_s16(p->compare, a, b);
    case T_U32:
      return compare_u32(p->compare, a, b);
    case T_S32:
      return compare_s32(p->compare, a, b);
    case T_U64:
      return compare_u64(p->compare, a, b);
    case T_S64:
      return compare_s64(p->compare, a, b);
    case T_F16:
      return compare_f16(p->compare, a, b);
    case T_F64:
      return compare_f64(p->compare, a, b);
    default:
      return p->flags & FLAG_FTZ ? compare_flushed(p->compare, a, b) : compare_f32(p->compare, a, b);
  }
}

static uint32_t combine(unsigned boolean, uint32_t x, const uint32_t *c) {
  if (!c) return x;
  return boolean == MODE_OR ? x | *c : boolean == MODE_XOR ? x ^ *c : x & *c;
}

static bool tested(double x, unsigned mode, bool single) {
  double least = single ? 0x1p-126 : 0x1p-1022;
  switch (mode) {
    case MODE_FINITE:
      return isfinite(x);
    case MODE_INFINITE:
      return isinf(x);
    case MODE_NUMBER:
      return x == x;
    case MODE_NAN:
      return x != x;
    case MODE_NORMAL:
      return isfinite(x) && fabs(x) >= least;
    default:
      return x != 0 && fabs(x) < least;
  }
}

static uint32_t test(const ptx_instruction *p, const void *a) {
  bool single = p->code % 16 == T_F32;
  COLLECT(tested(single ? ((const float *)a)[i] : ((const double *)a)[i], p->mode, single));
}

static void set(const ptx_instruction *p, void *d, uint32_t mask) {
  uint32_t *r = d;
  uint32_t one = p->code % 16 == T_F32 ? 0x3f800000 : 0xffffffff;
  EACH r[i] = mask >> i & 1 ? one : 0;
}

static uint32_t in_space(const ptx_instruction *p, const uint64_t *a) {
  COLLECT(emu_space_of(a[i]) == (p->space == SPACE_CONST ? SPACE_GLOBAL : p->space));
}

void emu_compare(const ptx_instruction *p, void *d, void *q, const void *const s[4]) {
  uint32_t *r = d;
  const uint32_t *a = s[0], *b = s[1];
  switch (p->code / 16) {
    case OP_SETP: {
      uint32_t m = compare(p, (ptx_type)(p->code % 16), s[0], s[1]);
      if (q) *(uint32_t *)q = combine(p->boolean, ~m, s[2]);
      *r = combine(p->boolean, m, s[2]);
      return;
    }
    case OP_SET:
      set(p, d, combine(p->boolean, compare(p, (ptx_type)p->second, s[0], s[1]), s[2]));
      return;
    case OP_AND:
      *r = *a & *b;
      return;
    case OP_OR:
      *r = *a | *b;
      return;
    case OP_XOR:
      *r = *a ^ *b;
      return;
    case OP_NOT:
      *r = ~*a;
      return;
    case OP_MOV:
      *r = *a;
      return;
    case OP_TESTP:
      *r = test(p, s[0]);
      return;
    case OP_ISSPACEP:
      *r = in_space(p, s[0]);
      return;
    default:
      return;
  }
}
