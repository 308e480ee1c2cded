/* cvt and cvta. A lane is taken to the widest type of its kind, rounded, limited, and stored. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "execute/lanes.h"

typedef struct value {
  enum { SIGNED, UNSIGNED, REAL } kind;
  int64_t s;
  uint64_t u;
  double f;
} value;

static inline value load(const void *row, unsigned i, ptx_type type, unsigned width) {
  uint64_t bits = 0;
  memcpy(&bits, (const uint8_t *)row + ((size_t)i << width), (size_t)1 << width);
  float single;
  uint32_t low = (uint32_t)bits;
  switch (type) {
    case T_U8:
      return (value){.kind = UNSIGNED, .u = (uint8_t)bits};
    case T_U16:
      return (value){.kind = UNSIGNED, .u = (uint16_t)bits};
    case T_U32:
      return (value){.kind = UNSIGNED, .u = low};
    case T_U64:
      return (value){.kind = UNSIGNED, .u = bits};
    case T_S8:
      return (value){.kind = SIGNED, .s = (int8_t)bits};
    case T_S16:
      return (value){.kind = SIGNED, .s = (int16_t)bits};
    case T_S32:
      return (value){.kind = SIGNED, .s = (int32_t)bits};
    case T_S64:
      return (value){.kind = SIGNED, .s = (int64_t)bits};
    case T_F16:
      return (value){.kind = REAL, .f = emu_half_to_float((uint16_t)bits)};
    case T_BF16:
      low = (uint32_t)bits << 16; /* fall through */
    case T_F32:
      memcpy(&single, &low, sizeof single);
      return (value){.kind = REAL, .f = single};
    default: {
      value v = {.kind = REAL};
      memcpy(&v.f, &bits, sizeof bits);
      return v;
    }
  }
}

static double integral(double x, unsigned rounding) {
  switch (rounding) {
    case ROUND_ZERO:
      return trunc(x);
    case ROUND_DOWN:
      return floor(x);
    case ROUND_UP:
      return ceil(x);
    default:
      return nearbyint(x);
  }
}

/* Limits of an integer type. */
static int64_t lowest(ptx_type t) { return ptx_signed(t) ? INT64_MIN >> (64 - 8 * ptx_bytes(t)) : 0; }
static uint64_t highest(ptx_type t) { return (ptx_signed(t) ? INT64_MAX : UINT64_MAX) >> (64 - 8 * ptx_bytes(t)); }

/* The bits of an integer of type t; floats are limited always, integers if `saturate`. */
static uint64_t to_integer(value v, ptx_type t, unsigned rounding, bool saturate) {
  int64_t low = lowest(t);
  uint64_t high = highest(t);
  if (v.kind == REAL) {
    if (v.f != v.f) return 0;
    double x = integral(v.f, rounding);
    if (x <= (double)low) return (uint64_t)low;
    if (x >= (double)high) return high;
    return ptx_signed(t) ? (uint64_t)(int64_t)x : (uint64_t)x;
  }
  if (v.kind == SIGNED) {
    if (saturate && v.s < low) return (uint64_t)low;
    if (saturate && v.s > 0 && (uint64_t)v.s > high) return high;
    return (uint64_t)v.s;
  }
  return saturate && v.u > high ? high : v.u;
}

static int host_rounding(unsigned rounding) {
  static const int modes[] = {FE_TONEAREST, FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
  return modes[rounding];
}

/* The nearest float in the sense of the rounding. */
static float to_single(value v, unsigned rounding) {
  volatile float r;
  if (rounding > ROUND_NEAREST) fesetround(host_rounding(rounding));
  volatile double f = v.f;
  volatile int64_t s = v.s;
  volatile uint64_t u = v.u;
  if (v.kind == REAL)
    r = (float)f;
  else if (v.kind == SIGNED)
    r = (float)s;
  else
    r = (float)u;
  if (rounding > ROUND_NEAREST) fesetround(FE_TONEAREST);
  return r;
}

static double to_double(value v) { return v.kind == REAL ? v.f : v.kind == SIGNED ? (double)v.s : (double)v.u; }

static uint16_t to_bfloat(float x, unsigned rounding) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return 0x7fff;
  if (rounding != ROUND_ZERO) bits += 0x7fff + (bits >> 16 & 1);
  return (uint16_t)(bits >> 16);
}

static uint64_t to_float(const ptx_instruction *p, value v, ptx_type t) {
  bool real = v.kind == REAL, whole = p->flags & FLAG_INTEGRAL;
  if (real && whole) v.f = integral(v.f, p->rounding);
  unsigned rounding = whole ? ROUND_NEAREST : p->rounding;
  if (p->flags & FLAG_SAT) v.f = v.f > 0 ? (v.f < 1 ? v.f : 1) : 0;
  if ((p->flags & FLAG_RELU) && v.f < 0) v.f = 0;
  if (t == T_F64) {
    double wide = to_double(v);
    uint64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    return bits;
  }
  if (t == T_F16) return emu_float_to_half(to_double(v), (ptx_rounding)rounding);
  float single = to_single(v, rounding);
  if (t == T_BF16) return to_bfloat(single, rounding);
  if ((p->flags & FLAG_FTZ) && fabsf(single) < 0x1p-126f) single = copysignf(0.0f, single);
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return bits;
}

static void general(const ptx_instruction *p, void *d, const void *row) {
  ptx_type to = (ptx_type)(p->code % 16), from = (ptx_type)p->second;
  unsigned width = ptx_width(p->x[0]), source = ptx_width(p->x[1]), bytes = ptx_bytes(to);
  for (unsigned i = 0; i < EMU_WARP; i++) {
    value v = load(row, i, from, source);
    if ((p->flags & FLAG_FTZ) && from == T_F32 && fabs(v.f) < 0x1p-126) v.f = copysign(0.0, v.f);
    uint64_t bits = ptx_float(to) ? to_float(p, v, to) : to_integer(v, to, p->rounding, p->flags & FLAG_SAT);
    unsigned spare = 64 - 8 * bytes; /* what is above the type is its sign, or 0 */
    bits = ptx_signed(to) ? (uint64_t)((int64_t)(bits << spare) >> spare) : bits << spare >> spare;
    memcpy((uint8_t *)d + ((size_t)i << width), &bits, (size_t)1 << width);
  }
}

/* The frequent ones, in loops that the compiler makes vectors of. */
EMU_CLONES static bool frequent(const ptx_instruction *p, void *d, const void *a) {
  if (p->flags || p->rounding > ROUND_NEAREST) return false;
  if (ptx_width(p->x[0]) != (ptx_bytes((ptx_type)(p->code % 16)) == 8 ? 3 : 2) || ptx_width(p->x[1]) != 2) return false;
  switch (CODE(p->code % 16, p->second)) {
    case CODE(T_U64, T_U32):
      EACH((uint64_t *)d)[i] = ((const uint32_t *)a)[i];
      return true;
    case CODE(T_S64, T_S32):
      EACH((int64_t *)d)[i] = ((const int32_t *)a)[i];
      return true;
    case CODE(T_F32, T_S32):
      EACH((float *)d)[i] = (float)((const int32_t *)a)[i];
      return true;
    case CODE(T_F32, T_U32):
      EACH((float *)d)[i] = (float)((const uint32_t *)a)[i];
      return true;
    default:
      return false;
  }
}

/* cvt.f16x2.f32 d, a, b: a is the upper half. */
static void pair(const ptx_instruction *p, uint32_t *d, const float *a, const float *b) {
  for (unsigned i = 0; i < EMU_WARP; i++) {
    bool relu = p->flags & FLAG_RELU;
    uint32_t high = emu_float_to_half(relu && a[i] < 0 ? 0 : a[i], (ptx_rounding)p->rounding);
    uint32_t low = emu_float_to_half(relu && b[i] < 0 ? 0 : b[i], (ptx_rounding)p->rounding);
    d[i] = high << 16 | low;
  }
}

void emu_convert(const ptx_instruction *p, void *d, void *q, const void *const s[4]) {
  (void)q;
  if (p->code / 16 == OP_CVT_PAIR) {
    pair(p, d, s[0], s[1]);
  } else if (p->code / 16 == OP_CVTA) {
    uint64_t *r = d, base = emu_space_base((ptx_space)p->space);
    const uint64_t *a = s[0];
    if (p->mode == MODE_TO) base = 0 - base;
    EACH r[i] = a[i] + base;
  } else if (!frequent(p, d, s[0])) {
    general(p, d, s[0]);
  }
}
