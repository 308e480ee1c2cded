/* The arithmetic of atomic operations. */
#include "execute/block.h"

/* A number as its bits, those of a float being the low ones. */
typedef union number {
  uint64_t bits;
  float single;
  double twice;
} number;

static uint64_t add_half(uint64_t a, uint64_t b) {
  return emu_float_to_half((double)emu_half_to_float((uint16_t)a) + (double)emu_half_to_float((uint16_t)b),
                           ROUND_NEAREST);
}

static uint64_t add(ptx_type type, uint64_t old, uint64_t value) {
  number x = {old}, y = {value}, sum = {0};
  switch (type) {
    case T_F32:
      sum.single = x.single + y.single;
      return sum.bits;
    case T_F64:
      sum.twice = x.twice + y.twice;
      return sum.bits;
    case T_F16:
      return add_half(old, value);
    case T_F16X2:
      return add_half(old, value) | add_half(old >> 16, value >> 16) << 16;
    default:
      return old + value;
  }
}

/* Whether a < b as numbers of the type. */
static bool below(ptx_type type, uint64_t a, uint64_t b) {
  if (type == T_S32) return (int32_t)a < (int32_t)b;
  if (type == T_S64) return (int64_t)a < (int64_t)b;
  return a < b;
}

uint64_t emu_atomic(const ptx_instruction *p, uint64_t old, uint64_t value, uint64_t other) {
  ptx_type type = (ptx_type)(p->code % 16);
  switch (p->mode) {
    case MODE_ADD:
      return add(type, old, value);
    case MODE_MIN:
      return below(type, value, old) ? value : old;
    case MODE_MAX:
      return below(type, old, value) ? value : old;
    case MODE_INC:
      return old >= value ? 0 : old + 1;
    case MODE_DEC:
      return old == 0 || old > value ? value : old - 1;
    case MODE_AND:
      return old & value;
    case MODE_OR:
      return old | value;
    case MODE_XOR:
      return old ^ value;
    case MODE_CAS:
      return old == value ? other : old;
    default:
      return value;
  }
}
