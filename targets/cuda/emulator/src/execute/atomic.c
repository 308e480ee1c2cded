/* The arithmetic of atomic operations. */
#include <math.h>
#include <string.h>

#include "execute/block.h"

static float as_single(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float x;
  memcpy(&x, &low, sizeof x);
  return x;
}

static double as_double(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t of_single(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint64_t of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint64_t add_half(uint64_t a, uint64_t b) {
  return emu_float_to_half((double)emu_half_to_float((uint16_t)a) + (double)emu_half_to_float((uint16_t)b),
                           ROUND_NEAREST);
}

static uint64_t add(ptx_type type, uint64_t old, uint64_t value) {
  switch (type) {
    case T_F32:
      return of_single(as_single(old) + as_single(value));
    case T_F64:
      return of_double(as_double(old) + as_double(value));
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
