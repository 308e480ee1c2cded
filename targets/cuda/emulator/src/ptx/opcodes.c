/* The instruction set: rows of names, operands, types and suffixes that are allowed. */
#include "ptx/opcodes.h"

#include <stdio.h>
#include <string.h>

#define BIT(type) (1u << (type))
#define INT16     (BIT(T_U16) | BIT(T_S16))
#define INT32     (BIT(T_U32) | BIT(T_S32))
#define INT64     (BIT(T_U64) | BIT(T_S64))
#define INTS      (INT16 | INT32 | INT64)
#define BITS      (BIT(T_U16) | BIT(T_U32) | BIT(T_U64))
#define FLOATS    (BIT(T_F32) | BIT(T_F64))
#define HALVES    (BIT(T_F16) | BIT(T_F16X2))
#define NUMBERS   (BIT(T_U8) | BIT(T_S8) | INTS | BIT(T_F16) | BIT(T_BF16) | FLOATS)
#define MOVABLE   (INTS | FLOATS | BIT(T_F16) | BIT(T_F16X2))

enum {
  M_ROUND = 1 << 0,
  M_FTZ = 1 << 1,
  M_SAT = 1 << 2,
  M_APPROX = 1 << 3,
  M_HILO = 1 << 4,
  M_COMPARE = 1 << 5,
  M_BOOLEAN = 1 << 6,
  M_SPACE = 1 << 7,
  M_CACHE = 1 << 8,
  M_VECTOR = 1 << 9,
  M_SHF = 1 << 10,
  M_WRAP = 1 << 11,
  M_SHFL = 1 << 12,
  M_VOTE = 1 << 13,
  M_ATOM = 1 << 14,
  M_SYNC = 1 << 15,
  M_UNI = 1 << 16,
  M_TO = 1 << 17,
  M_NAN = 1 << 18,
  M_TESTP = 1 << 19,
  M_SHIFT = 1 << 20,
  M_RELU = 1 << 21,
  M_ORDER = 1 << 22,
  M_INDEX = 1 << 23,
  M_MATH = M_ROUND | M_FTZ | M_SAT,
  M_ACCESS = M_SPACE | M_CACHE | M_VECTOR | M_ORDER,
};

typedef struct row {
  const char *name;
  uint16_t operation;
  uint8_t group;
  uint8_t types; /* how many the opcode names */
  const char *signature;
  uint32_t allowed; /* bits of the first type; 1: none */
  uint32_t modifiers;
} row;

static const row rows[] = {
    {"add", OP_ADD, G_INTEGER, 1, "daa", INTS, M_SAT},
    {"add", OP_ADD, G_FLOAT, 1, "daa", FLOATS, M_MATH},
    {"add", OP_ADD, G_HALF, 1, "daa", HALVES, M_MATH},
    {"sub", OP_SUB, G_INTEGER, 1, "daa", INTS, M_SAT},
    {"sub", OP_SUB, G_FLOAT, 1, "daa", FLOATS, M_MATH},
    {"sub", OP_SUB, G_HALF, 1, "daa", HALVES, M_MATH},
    {"mul", OP_MUL, G_INTEGER, 1, "daa", INTS, M_HILO},
    {"mul", OP_MUL, G_FLOAT, 1, "daa", FLOATS, M_MATH},
    {"mul", OP_MUL, G_HALF, 1, "daa", HALVES, M_MATH},
    {"mad", OP_MAD, G_INTEGER, 1, "daaa", INTS, M_HILO | M_SAT},
    {"mad", OP_FMA, G_FLOAT, 1, "daaa", FLOATS, M_MATH},
    {"mul24", OP_MUL24, G_INTEGER, 1, "daa", INT32, M_HILO},
    {"mad24", OP_MAD24, G_INTEGER, 1, "daaa", INT32, M_HILO},
    {"sad", OP_SAD, G_INTEGER, 1, "daaa", INTS, 0},
    {"div", OP_DIV, G_INTEGER, 1, "daa", INTS, 0},
    {"div", OP_DIV, G_FLOAT, 1, "daa", FLOATS, M_MATH | M_APPROX},
    {"rem", OP_REM, G_INTEGER, 1, "daa", INTS, 0},
    {"abs", OP_ABS, G_INTEGER, 1, "da", INTS, 0},
    {"abs", OP_ABS, G_FLOAT, 1, "da", FLOATS, M_FTZ},
    {"abs", OP_ABS, G_HALF, 1, "da", HALVES, M_FTZ},
    {"neg", OP_NEG, G_INTEGER, 1, "da", INTS, 0},
    {"neg", OP_NEG, G_FLOAT, 1, "da", FLOATS, M_FTZ},
    {"neg", OP_NEG, G_HALF, 1, "da", HALVES, M_FTZ},
    {"min", OP_MIN, G_INTEGER, 1, "daa", INTS, 0},
    {"min", OP_MIN, G_FLOAT, 1, "daa", FLOATS, M_FTZ | M_NAN},
    {"min", OP_MIN, G_HALF, 1, "daa", HALVES, M_FTZ | M_NAN},
    {"max", OP_MAX, G_INTEGER, 1, "daa", INTS, 0},
    {"max", OP_MAX, G_FLOAT, 1, "daa", FLOATS, M_FTZ | M_NAN},
    {"max", OP_MAX, G_HALF, 1, "daa", HALVES, M_FTZ | M_NAN},
    {"and", OP_AND, G_INTEGER, 1, "daa", BITS, 0},
    {"or", OP_OR, G_INTEGER, 1, "daa", BITS, 0},
    {"xor", OP_XOR, G_INTEGER, 1, "daa", BITS, 0},
    {"not", OP_NOT, G_INTEGER, 1, "da", BITS, 0},
    {"and", OP_AND, G_COMPARE, 1, "Ppp", BIT(T_PRED), 0},
    {"or", OP_OR, G_COMPARE, 1, "Ppp", BIT(T_PRED), 0},
    {"xor", OP_XOR, G_COMPARE, 1, "Ppp", BIT(T_PRED), 0},
    {"not", OP_NOT, G_COMPARE, 1, "Pp", BIT(T_PRED), 0},
    {"mov", OP_MOV, G_COMPARE, 1, "Pp", BIT(T_PRED), 0},
    {"cnot", OP_CNOT, G_INTEGER, 1, "da", BITS, 0},
    {"shl", OP_SHL, G_INTEGER, 1, "dau", BITS, 0},
    {"shr", OP_SHR, G_INTEGER, 1, "dau", INTS, 0},
    {"shf", OP_SHF_L, G_INTEGER, 1, "daau", BIT(T_U32), M_SHF | M_WRAP},
    {"bfe", OP_BFE, G_INTEGER, 1, "dauu", INT32 | INT64, 0},
    {"bfi", OP_BFI, G_INTEGER, 1, "daauu", BIT(T_U32) | BIT(T_U64), 0},
    {"bfind", OP_BFIND, G_INTEGER, 1, "Ua", INT32 | INT64, M_SHIFT},
    {"brev", OP_BREV, G_INTEGER, 1, "da", BIT(T_U32) | BIT(T_U64), 0},
    {"popc", OP_POPC, G_INTEGER, 1, "Ua", BIT(T_U32) | BIT(T_U64), 0},
    {"clz", OP_CLZ, G_INTEGER, 1, "Ua", BIT(T_U32) | BIT(T_U64), 0},
    {"prmt", OP_PRMT, G_INTEGER, 1, "daaa", BIT(T_U32), 0},
    {"lop3", OP_LOP3, G_INTEGER, 1, "daaau", BIT(T_U32), 0},
    {"dp4a", OP_DP4A, G_INTEGER, 2, "daba", INT32, 0},
    {"fma", OP_FMA, G_FLOAT, 1, "daaa", FLOATS, M_MATH},
    {"fma", OP_FMA, G_HALF, 1, "daaa", HALVES, M_MATH | M_RELU},
    {"sqrt", OP_SQRT, G_FLOAT, 1, "da", FLOATS, M_ROUND | M_FTZ | M_APPROX},
    {"rcp", OP_RCP, G_FLOAT, 1, "da", FLOATS, M_ROUND | M_FTZ | M_APPROX},
    {"rsqrt", OP_RSQRT, G_FLOAT, 1, "da", FLOATS, M_FTZ | M_APPROX},
    {"ex2", OP_EX2, G_FLOAT, 1, "da", BIT(T_F32), M_FTZ | M_APPROX},
    {"lg2", OP_LG2, G_FLOAT, 1, "da", BIT(T_F32), M_FTZ | M_APPROX},
    {"sin", OP_SIN, G_FLOAT, 1, "da", BIT(T_F32), M_FTZ | M_APPROX},
    {"cos", OP_COS, G_FLOAT, 1, "da", BIT(T_F32), M_FTZ | M_APPROX},
    {"tanh", OP_TANH, G_FLOAT, 1, "da", BIT(T_F32), M_APPROX},
    {"ex2", OP_EX2, G_HALF, 1, "da", HALVES, M_FTZ | M_APPROX},
    {"tanh", OP_TANH, G_HALF, 1, "da", HALVES, M_APPROX},
    {"testp", OP_TESTP, G_COMPARE, 1, "Pa", FLOATS, M_TESTP},
    {"copysign", OP_COPYSIGN, G_FLOAT, 1, "daa", FLOATS, 0},
    {"setp", OP_SETP, G_COMPARE, 1, "PQaaq", INTS | FLOATS | BIT(T_F16), M_COMPARE | M_BOOLEAN | M_FTZ},
    {"set", OP_SET, G_COMPARE, 2, "dbbq", INT32 | BIT(T_F32), M_COMPARE | M_BOOLEAN | M_FTZ},
    {"selp", OP_SELP, G_MOVE, 1, "daap", MOVABLE, 0},
    {"slct", OP_SLCT, G_MOVE, 2, "daab", MOVABLE, M_FTZ},
    {"mov", OP_MOV, G_MOVE, 1, "dm", MOVABLE, 0},
    {"cvt", OP_CVT, G_CONVERT, 2, "YX", NUMBERS, M_MATH | M_RELU},
    {"cvt", OP_CVT_PAIR, G_CONVERT, 2, "dbb", BIT(T_F16X2), M_ROUND | M_FTZ | M_RELU},
    {"cvta", OP_CVTA, G_CONVERT, 1, "dm", BIT(T_U64), M_TO | M_SPACE},
    {"isspacep", OP_ISSPACEP, G_COMPARE, 0, "PX", 1, M_SPACE},
    {"ld", OP_LD, G_MEMORY, 1, "VA", NUMBERS | BIT(T_F16X2), M_ACCESS},
    {"ldu", OP_LD, G_MEMORY, 1, "VA", NUMBERS | BIT(T_F16X2), M_ACCESS},
    {"st", OP_ST, G_MEMORY, 1, "Av", NUMBERS | BIT(T_F16X2), M_ACCESS},
    {"atom", OP_ATOM, G_MEMORY, 1, "dAac", INT32 | INT64 | FLOATS | HALVES | BIT(T_U16), M_SPACE | M_ATOM | M_ORDER},
    {"red", OP_RED, G_MEMORY, 1, "Aa", INT32 | INT64 | FLOATS | HALVES, M_SPACE | M_ATOM | M_ORDER},
    {"bra", OP_BRA, G_CONTROL, 0, "L", 1, M_UNI},
    {"brx", OP_BRX, G_CONTROL, 0, "uT", 1, M_INDEX | M_UNI},
    {"ret", OP_EXIT, G_CONTROL, 0, "", 1, M_UNI},
    {"exit", OP_EXIT, G_CONTROL, 0, "", 1, 0},
    {"trap", OP_TRAP, G_CONTROL, 0, "", 1, 0},
    {"bar.sync", OP_BAR, G_CONTROL, 0, "uo", 1, M_SYNC},
    {"bar.arrive", OP_BAR_ARRIVE, G_CONTROL, 0, "uu", 1, M_SYNC},
    {"bar.red", OP_BAR_RED, G_CONTROL, 1, "Uup", BIT(T_U32), M_SYNC | M_ATOM},
    {"bar.red", OP_BAR_RED, G_CONTROL, 1, "Pup", BIT(T_PRED), M_SYNC | M_ATOM},
    {"bar.warp.sync", OP_BAR_WARP, G_CONTROL, 0, "u", 1, 0},
    {"membar", OP_FENCE, G_CONTROL, 0, "", 1, M_ORDER},
    {"fence", OP_FENCE, G_CONTROL, 0, "", 1, M_ORDER},
    {"nanosleep", OP_NOP, G_CONTROL, 1, "u", BIT(T_U32), 0},
    {"prefetch", OP_NOP, G_CONTROL, 0, "A", 1, M_SPACE | M_CACHE},
    {"prefetchu", OP_NOP, G_CONTROL, 0, "A", 1, M_CACHE},
    {"shfl", OP_SHFL, G_EXCHANGE, 1, "dQauuo", BIT(T_U32), M_SHFL | M_SYNC},
    {"vote", OP_VOTE, G_EXCHANGE, 1, "Ppo", BIT(T_PRED), M_VOTE | M_SYNC},
    {"vote", OP_VOTE, G_EXCHANGE, 1, "Upo", BIT(T_U32), M_VOTE | M_SYNC},
    {"match", OP_MATCH, G_EXCHANGE, 1, "UQau", BIT(T_U32) | BIT(T_U64), M_VOTE | M_SYNC},
    {"activemask", OP_ACTIVEMASK, G_EXCHANGE, 1, "d", BIT(T_U32), 0},
    {"redux", OP_REDUX, G_EXCHANGE, 1, "dau", INT32, M_ATOM | M_SYNC},
};

typedef struct suffix {
  const char *text;
  uint32_t group;
  uint8_t value;
} suffix;

static const suffix suffixes[] = {
    {"rn", M_ROUND, ROUND_NEAREST},
    {"rz", M_ROUND, ROUND_ZERO},
    {"rm", M_ROUND, ROUND_DOWN},
    {"rp", M_ROUND, ROUND_UP},
    {"rna", M_ROUND, ROUND_AWAY},
    {"rni", M_ROUND, ROUND_NEAREST | 16},
    {"rzi", M_ROUND, ROUND_ZERO | 16},
    {"rmi", M_ROUND, ROUND_DOWN | 16},
    {"rpi", M_ROUND, ROUND_UP | 16},
    {"ftz", M_FTZ, FLAG_FTZ},
    {"sat", M_SAT, FLAG_SAT},
    {"relu", M_RELU, FLAG_RELU},
    {"NaN", M_NAN, FLAG_NAN},
    {"approx", M_APPROX, 0},
    {"full", M_APPROX, 0},
    {"uni", M_UNI, 0},
    {"idx", M_INDEX, 0},
    {"shiftamt", M_SHIFT, FLAG_SHIFT},
    {"wrap", M_WRAP, FLAG_WRAP},
    {"clamp", M_WRAP, 0},
    {"to", M_TO, MODE_TO},
    {"lo", M_HILO, MODE_LO},
    {"hi", M_HILO, MODE_HI},
    {"wide", M_HILO, MODE_WIDE},
    {"l", M_SHF, MODE_LEFT},
    {"r", M_SHF, MODE_RIGHT},
    {"up", M_SHFL, MODE_UP},
    {"down", M_SHFL, MODE_DOWN},
    {"bfly", M_SHFL, MODE_BUTTERFLY},
    {"idx", M_SHFL, MODE_INDEX},
    {"all", M_VOTE, MODE_ALL},
    {"any", M_VOTE, MODE_ANY},
    {"uni", M_VOTE, MODE_UNIFORM},
    {"ballot", M_VOTE, MODE_BALLOT},
    {"add", M_ATOM, MODE_ADD},
    {"min", M_ATOM, MODE_MIN},
    {"max", M_ATOM, MODE_MAX},
    {"inc", M_ATOM, MODE_INC},
    {"dec", M_ATOM, MODE_DEC},
    {"exch", M_ATOM, MODE_EXCHANGE},
    {"cas", M_ATOM, MODE_CAS},
    {"and", M_ATOM, MODE_AND},
    {"or", M_ATOM, MODE_OR},
    {"xor", M_ATOM, MODE_XOR},
    {"popc", M_ATOM, MODE_POPC},
    {"noftz", M_ATOM, MODE_NONE},
    {"and", M_BOOLEAN, MODE_AND},
    {"or", M_BOOLEAN, MODE_OR},
    {"xor", M_BOOLEAN, MODE_XOR},
    {"finite", M_TESTP, MODE_FINITE},
    {"infinite", M_TESTP, MODE_INFINITE},
    {"number", M_TESTP, MODE_NUMBER},
    {"notanumber", M_TESTP, MODE_NAN},
    {"normal", M_TESTP, MODE_NORMAL},
    {"subnormal", M_TESTP, MODE_SUBNORMAL},
    {"eq", M_COMPARE, CMP_EQ},
    {"ne", M_COMPARE, CMP_NE},
    {"lt", M_COMPARE, CMP_LT},
    {"le", M_COMPARE, CMP_LE},
    {"gt", M_COMPARE, CMP_GT},
    {"ge", M_COMPARE, CMP_GE},
    {"lo", M_COMPARE, CMP_LT},
    {"ls", M_COMPARE, CMP_LE},
    {"hi", M_COMPARE, CMP_GT},
    {"hs", M_COMPARE, CMP_GE},
    {"equ", M_COMPARE, CMP_EQU},
    {"neu", M_COMPARE, CMP_NEU},
    {"ltu", M_COMPARE, CMP_LTU},
    {"leu", M_COMPARE, CMP_LEU},
    {"gtu", M_COMPARE, CMP_GTU},
    {"geu", M_COMPARE, CMP_GEU},
    {"num", M_COMPARE, CMP_NUM},
    {"nan", M_COMPARE, CMP_NAN},
    {"global", M_SPACE, SPACE_GLOBAL},
    {"shared", M_SPACE, SPACE_SHARED},
    {"shared::cta", M_SPACE, SPACE_SHARED},
    {"local", M_SPACE, SPACE_LOCAL},
    {"const", M_SPACE, SPACE_CONST},
    {"param", M_SPACE, SPACE_PARAM},
    {"param::entry", M_SPACE, SPACE_PARAM},
    {"v2", M_VECTOR, 2},
    {"v4", M_VECTOR, 4},
    {"ca", M_CACHE, 0},
    {"cg", M_CACHE, 0},
    {"cs", M_CACHE, 0},
    {"lu", M_CACHE, 0},
    {"cv", M_CACHE, 0},
    {"wb", M_CACHE, 0},
    {"wt", M_CACHE, 0},
    {"nc", M_CACHE, 0},
    {"L1", M_CACHE, 0},
    {"L2", M_CACHE, 0},
    {"L1::no_allocate", M_CACHE, 0},
    {"L1::evict_normal", M_CACHE, 0},
    {"L1::evict_first", M_CACHE, 0},
    {"L1::evict_last", M_CACHE, 0},
    {"L1::evict_unchanged", M_CACHE, 0},
    {"L2::64B", M_CACHE, 0},
    {"L2::128B", M_CACHE, 0},
    {"L2::256B", M_CACHE, 0},
    {"volatile", M_ORDER, 0},
    {"weak", M_ORDER, 0},
    {"relaxed", M_ORDER, 0},
    {"acquire", M_ORDER, 0},
    {"release", M_ORDER, 0},
    {"acq_rel", M_ORDER, 0},
    {"sc", M_ORDER, 0},
    {"cta", M_ORDER, 0},
    {"gpu", M_ORDER, 0},
    {"sys", M_ORDER, 0},
    {"gl", M_ORDER, 0},
    {"sync", M_SYNC, FLAG_SYNC},
    {"aligned", M_SYNC, FLAG_SYNC},
};

static const struct {
  const char *text;
  ptx_type type;
} types[] = {{"b8", T_U8},   {"u8", T_U8},       {"s8", T_S8},   {"b16", T_U16}, {"u16", T_U16},   {"s16", T_S16},
             {"b32", T_U32}, {"u32", T_U32},     {"s32", T_S32}, {"b64", T_U64}, {"u64", T_U64},   {"s64", T_S64},
             {"f16", T_F16}, {"f16x2", T_F16X2}, {"f32", T_F32}, {"f64", T_F64}, {"bf16", T_BF16}, {"pred", T_PRED}};

ptx_type ptx_type_find(const char *text, size_t length) {
  if (length < 2 || text[0] != '.') return T_NONE;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strlen(types[i].text) == length - 1 && memcmp(types[i].text, text + 1, length - 1) == 0) return types[i].type;
  return T_NONE;
}

const char *ptx_type_name(ptx_type type) {
  static const char *const names[16] = {"",    "u8",  "s8",   "u16",   "s16", "u32", "s32",  "u64",
                                        "s64", "f16", "bf16", "f16x2", "f32", "f64", "pred", ""};
  return names[type];
}

const char *ptx_operation_name(unsigned code) {
  static const char *const names[] = {
#define X(name, text) text,
      PTX_OPERATIONS(X)
#undef X
  };
  return names[code / 16];
}

/* The part of an opcode from `at` to the next point, the point before it included. */
static size_t part_length(const char *at, const char *end) {
  const char *p = at + 1;
  while (p < end && *p != '.') p++;
  return (size_t)(p - at);
}

/* Barriers are named by their first suffixes: "barrier.cta.sync" is "bar.sync". Length of what is consumed. */
static size_t base_name(const char *text, size_t length, char base[24]) {
  const char *end = text + length, *at = text;
  size_t n = 0;
  while (at < end && *at != '.' && n < 20) base[n++] = *at++;
  base[n] = '\0';
  if (strcmp(base, "bar") != 0 && strcmp(base, "barrier") != 0) return (size_t)(at - text);
  memcpy(base, "bar", 4);
  n = 3;
  for (int parts = 0; at < end && parts < 2; parts++) {
    size_t l = part_length(at, end);
    if (l == 4 && memcmp(at, ".cta", 4) == 0) {
      at += l;
      l = at < end ? part_length(at, end) : 0;
    }
    if (n + l >= 23) break;
    memcpy(base + n, at, l);
    base[n += l] = '\0';
    at += l;
    if (strcmp(base, "bar.warp") != 0) break;
  }
  return (size_t)(at - text);
}

static const row *row_find(const char *name, ptx_type type) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].name, name) == 0 && (rows[i].allowed >> type & 1)) return &rows[i];
  return NULL;
}

static bool row_named(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].name, name) == 0) return true;
  return false;
}

/* Notes a suffix in the prototype; false if `r` does not allow it. */
static bool apply(const row *r, const char *text, size_t length, ptx_instruction *p) {
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    const suffix *s = &suffixes[i];
    if (!(r->modifiers & s->group) || strlen(s->text) != length || memcmp(s->text, text, length) != 0) continue;
    switch (s->group) {
      case M_ROUND:
        p->rounding = s->value & 15;
        if (s->value & 16) p->flags |= FLAG_INTEGRAL;
        return true;
      case M_COMPARE:
        p->compare = s->value;
        return true;
      case M_BOOLEAN:
        p->boolean = s->value;
        return true;
      case M_SPACE:
        p->space = s->value;
        return true;
      case M_VECTOR:
        p->vector = s->value;
        return true;
      case M_ATOM:
        if (s->value) p->mode = s->value;
        return true;
      case M_HILO:
      case M_SHF:
      case M_SHFL:
      case M_VOTE:
      case M_TESTP:
      case M_TO:
        p->mode = s->value;
        return true;
      default:
        p->flags |= s->value;
        return true;
    }
  }
  return false;
}

/* Operations that a mode makes another one. */
static void refine(const row *r, ptx_opcode *o, ptx_type type) {
  ptx_instruction *p = &o->prototype;
  unsigned operation = r->operation;
  if (operation == OP_MUL && p->mode == MODE_HI) operation = OP_MUL_HI;
  if (operation == OP_MUL && p->mode == MODE_WIDE) operation = OP_MUL_WIDE, o->signature = "Daa";
  if (operation == OP_MAD && p->mode == MODE_HI) operation = OP_MAD_HI;
  if (operation == OP_MAD && p->mode == MODE_WIDE) operation = OP_MAD_WIDE, o->signature = "DaaW";
  if (operation == OP_SHF_L && p->mode == MODE_RIGHT) operation = OP_SHF_R;
  p->code = (uint16_t)CODE(operation, type);
}

/* What the rows cannot say: suffixes that must be there, and types that go with them. */
static const char *missing(const row *r, const ptx_instruction *p, ptx_type type) {
  if ((r->modifiers & M_HILO) && !p->mode) return "needs .lo, .hi or .wide";
  if (p->mode == MODE_WIDE && ptx_bytes(type) == 8) return "has no .wide of 64 bits";
  if ((r->modifiers & M_COMPARE) && !p->compare) return "needs a comparison such as .eq";
  if ((r->modifiers & (M_ATOM | M_SHF | M_SHFL | M_VOTE | M_TESTP)) && !p->mode) return "needs the kind of operation";
  if (p->compare >= CMP_EQU && !ptx_float(r->types == 2 ? (ptx_type)p->second : type))
    return "compares integers by a comparison of floats";
  if ((p->flags & FLAG_SAT) && r->group == G_INTEGER && type != T_S32) return "has .sat for .s32 only";
  if (r->operation == OP_FMA && !p->rounding) return "needs a rounding such as .rn";
  if (p->vector * ptx_bytes(type) > 16) return "accesses more than 16 bytes";
  return NULL;
}

bool ptx_opcode_find(const char *text, size_t length, ptx_opcode *opcode, char message[PTX_MESSAGE]) {
  char base[24];
  const char *end = text + length, *at = text + base_name(text, length, base);
  ptx_type found[2] = {T_NONE, T_NONE};
  unsigned n = 0;
  for (const char *p = at; p < end; p += part_length(p, end)) {
    ptx_type type = ptx_type_find(p, part_length(p, end));
    if (type != T_NONE && n < 2) found[n++] = type;
  }
  const row *r = row_find(base, found[0]);
  if (!r || (r->types < 2 && n > 1) || r->types > n) {
    snprintf(message, PTX_MESSAGE, row_named(base) ? "%.*s: these types are not supported" : "%.*s: unknown opcode",
             (int)length, text);
    return false;
  }
  *opcode = (ptx_opcode){.signature = r->signature, .prototype = {.group = r->group, .second = (uint8_t)found[1]}};
  ptx_instruction *p = &opcode->prototype;
  p->vector = r->modifiers & M_VECTOR ? 1 : 0;
  if (r->operation == OP_ISSPACEP) p->second = T_U64; /* of the address */
  for (; at < end; at += part_length(at, end)) {
    size_t l = part_length(at, end);
    if (ptx_type_find(at, l) != T_NONE || apply(r, at + 1, l - 1, p)) continue;
    snprintf(message, PTX_MESSAGE, "%.*s: suffix %.*s is not supported", (int)length, text, (int)l, at);
    return false;
  }
  const char *why = missing(r, p, found[0]);
  if (why) {
    snprintf(message, PTX_MESSAGE, "%.*s: %s", (int)length, text, why);
    return false;
  }
  refine(r, opcode, found[0]);
  return true;
}

bool ptx_writes(const ptx_instruction *p, unsigned slot) {
  switch (p->code / 16) {
    case OP_LD:
    case OP_UNPACK:
      return slot < 4;
    case OP_ST:
    case OP_RED:
      return false;
    case OP_ATOM:
      return slot == 0;
    default:
      return slot == 0 || slot == 5;
  }
}
