/* A parsed module: kernels whose instructions are small records with registers assigned to rows of lanes. */
#ifndef EMU_PTX_PROGRAM_H
#define EMU_PTX_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ptx_type {
  T_NONE,
  T_U8, /* .b types are unsigned here */
  T_S8,
  T_U16,
  T_S16,
  T_U32,
  T_S32,
  T_U64,
  T_S64,
  T_F16,
  T_BF16,
  T_F16X2,
  T_F32,
  T_F64,
  T_PRED,
} ptx_type;

/* Bytes of one element; 0 for predicates. */
static inline unsigned ptx_bytes(ptx_type type) {
  static const uint8_t bytes[16] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 4, 8, 0, 0};
  return bytes[type];
}

static inline bool ptx_signed(ptx_type type) { return type == T_S8 || type == T_S16 || type == T_S32 || type == T_S64; }

static inline bool ptx_float(ptx_type type) { return type >= T_F16 && type <= T_F64; }

/* What the instruction does, its type aside. X(name, text). */
#define PTX_OPERATIONS(X)      \
  X(ADD, "add")                \
  X(SUB, "sub")                \
  X(MUL, "mul")                \
  X(MUL_HI, "mul.hi")          \
  X(MUL_WIDE, "mul.wide")      \
  X(MAD, "mad")                \
  X(MAD_HI, "mad.hi")          \
  X(MAD_WIDE, "mad.wide")      \
  X(SAD, "sad")                \
  X(DIV, "div")                \
  X(REM, "rem")                \
  X(ABS, "abs")                \
  X(NEG, "neg")                \
  X(MIN, "min")                \
  X(MAX, "max")                \
  X(AND, "and")                \
  X(OR, "or")                  \
  X(XOR, "xor")                \
  X(NOT, "not")                \
  X(CNOT, "cnot")              \
  X(SHL, "shl")                \
  X(SHR, "shr")                \
  X(SHF_L, "shf.l")            \
  X(SHF_R, "shf.r")            \
  X(BFE, "bfe")                \
  X(BFI, "bfi")                \
  X(BFIND, "bfind")            \
  X(BREV, "brev")              \
  X(POPC, "popc")              \
  X(CLZ, "clz")                \
  X(PRMT, "prmt")              \
  X(LOP3, "lop3")              \
  X(DP4A, "dp4a")              \
  X(MUL24, "mul24")            \
  X(MAD24, "mad24")            \
  X(FMA, "fma")                \
  X(SQRT, "sqrt")              \
  X(RCP, "rcp")                \
  X(RSQRT, "rsqrt")            \
  X(EX2, "ex2")                \
  X(LG2, "lg2")                \
  X(SIN, "sin")                \
  X(COS, "cos")                \
  X(TANH, "tanh")              \
  X(TESTP, "testp")            \
  X(COPYSIGN, "copysign")      \
  X(SETP, "setp")              \
  X(SET, "set")                \
  X(SELP, "selp")              \
  X(SLCT, "slct")              \
  X(MOV, "mov")                \
  X(PACK, "mov.pack")          \
  X(UNPACK, "mov.unpack")      \
  X(CVT, "cvt")                \
  X(CVT_PAIR, "cvt.x2")        \
  X(CVTA, "cvta")              \
  X(ISSPACEP, "isspacep")      \
  X(LD, "ld")                  \
  X(ST, "st")                  \
  X(ATOM, "atom")              \
  X(RED, "red")                \
  X(BRA, "bra")                \
  X(BRX, "brx.idx")            \
  X(EXIT, "ret")               \
  X(TRAP, "trap")              \
  X(BAR, "bar")                \
  X(BAR_ARRIVE, "bar.arrive")  \
  X(BAR_RED, "bar.red")        \
  X(BAR_WARP, "bar.warp.sync") \
  X(FENCE, "membar")           \
  X(SHFL, "shfl") X(VOTE, "vote") X(MATCH, "match") X(ACTIVEMASK, "activemask") X(REDUX, "redux") X(NOP, "nop")

typedef enum ptx_operation {
#define X(name, text) OP_##name,
  PTX_OPERATIONS(X)
#undef X
      OP_COUNT
} ptx_operation;

/* What a switch goes by. */
#define CODE(operation, type) ((operation) * 16 + (type))

enum { CODE_COUNT = OP_COUNT * 16 };

/* Which function executes an instruction. The first ones map rows to rows. */
typedef enum ptx_group {
  G_INTEGER,
  G_FLOAT,
  G_HALF,
  G_COMPARE,
  G_CONVERT,
  G_MOVE,
  G_ROWS,
  G_MEMORY = G_ROWS,
  G_CONTROL,
  G_EXCHANGE
} ptx_group;

typedef enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_CONST, SPACE_PARAM } ptx_space;

typedef enum ptx_rounding { ROUND_NONE, ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY } ptx_rounding;

typedef enum ptx_compare {
  CMP_NONE,
  CMP_EQ,
  CMP_NE,
  CMP_LT,
  CMP_LE,
  CMP_GT,
  CMP_GE,
  CMP_EQU,
  CMP_NEU,
  CMP_LTU,
  CMP_LEU,
  CMP_GTU,
  CMP_GEU,
  CMP_NUM,
  CMP_NAN
} ptx_compare;

typedef enum ptx_mode {
  MODE_NONE,
  MODE_LO,
  MODE_HI,
  MODE_WIDE, /* mul, mad */
  MODE_LEFT,
  MODE_RIGHT, /* shf */
  MODE_UP,
  MODE_DOWN,
  MODE_BUTTERFLY,
  MODE_INDEX, /* shfl */
  MODE_ALL,
  MODE_ANY,
  MODE_UNIFORM,
  MODE_BALLOT, /* vote, match */
  MODE_ADD,
  MODE_MIN,
  MODE_MAX,
  MODE_INC,
  MODE_DEC,
  MODE_EXCHANGE,
  MODE_CAS, /* atom, red */
  MODE_AND,
  MODE_OR,
  MODE_XOR,
  MODE_POPC, /* also setp, bar.red */
  MODE_FINITE,
  MODE_INFINITE,
  MODE_NUMBER,
  MODE_NAN,
  MODE_NORMAL,
  MODE_SUBNORMAL, /* testp */
  MODE_TO,        /* cvta to a space */
} ptx_mode;

enum {
  FLAG_FTZ = 1,
  FLAG_SAT = 2,
  FLAG_WRAP = 4,
  FLAG_NAN = 8,
  FLAG_INTEGRAL = 16,
  FLAG_SHIFT = 32,
  FLAG_RELU = 64,
  FLAG_SYNC = 128
};

/* An operand: what kind, the bytes of a lane, and where.
 *   register: offset of its row in units of 64 bytes; constant: index in the function's constants; special: its number. */
typedef uint32_t ptx_operand;

enum { OPERAND_NONE, OPERAND_REGISTER, OPERAND_CONSTANT, OPERAND_SPECIAL };
enum { WIDTH_PREDICATE = 4 }; /* else the logarithm of the bytes */

static inline ptx_operand ptx_operand_make(unsigned kind, unsigned width, uint32_t index) {
  return (ptx_operand)kind << 30 | (ptx_operand)width << 27 | index;
}
static inline unsigned ptx_kind(ptx_operand x) { return x >> 30; }
static inline unsigned ptx_width(ptx_operand x) { return x >> 27 & 7; }
static inline bool ptx_negated(ptx_operand x) { return x >> 26 & 1; }
static inline uint32_t ptx_index(ptx_operand x) { return x & 0x3ffffff; }
#define PTX_NEGATED ((ptx_operand)1 << 26)
enum { PTX_MAX_INDEX = 0x3ffffff };

enum { PTX_OPERANDS = 8 };

/* Operands by group. Rows: x[0] destination, x[1..4] sources, x[5] second predicate of setp.
 * Memory: x[0..3] the values' registers, x[4] base, x[5] offset (an index of a constant), x[6], x[7] for atom.
 * Control: x[0] barrier, index or target; see the executing functions. */
typedef struct ptx_instruction {
  uint16_t code;
  uint8_t group;
  uint8_t second; /* ptx_type: of cvt's, set's and slct's sources */
  uint8_t rounding, compare, mode, space;
  uint8_t flags, vector, sources, boolean;
  uint32_t line;
  uint32_t target; /* instruction that bra goes to; of brx: index in targets */
  ptx_operand guard;
  ptx_operand x[PTX_OPERANDS];
} ptx_instruction;

typedef enum ptx_special {
  SR_TID_X,
  SR_TID_Y,
  SR_TID_Z,
  SR_LANEID,
  SR_LANEMASK_EQ,
  SR_LANEMASK_LT,
  SR_LANEMASK_LE,
  SR_LANEMASK_GT,
  SR_LANEMASK_GE,
  SR_ROWS, /* those above differ between lanes */
  SR_NTID_X = SR_ROWS,
  SR_NTID_Y,
  SR_NTID_Z,
  SR_CTAID_X,
  SR_CTAID_Y,
  SR_CTAID_Z,
  SR_NCTAID_X,
  SR_NCTAID_Y,
  SR_NCTAID_Z,
  SR_WARPID,
  SR_NWARPID,
  SR_SMID,
  SR_NSMID,
  SR_GRIDID,
  SR_CLOCK,
  SR_CLOCK64,
  SR_GLOBALTIMER,
  SR_DYNAMIC_SHARED,
  SR_TOTAL_SHARED,
  SR_COUNT
} ptx_special;

typedef struct ptx_parameter {
  uint32_t offset, bytes;
} ptx_parameter;

typedef struct ptx_function {
  char *name;
  ptx_instruction *code;
  uint32_t *targets; /* of brx: a count, then that many instructions */
  uint64_t *constants;
  ptx_parameter *parameters;
  uint32_t instructions, target_count, constant_count, parameter_count;
  uint32_t parameter_bytes;
  uint32_t registers;      /* rows of one warp, in units of 64 bytes */
  uint32_t register_count; /* 32-bit registers of a thread, as far as can be told here */
  uint32_t shared_bytes;   /* static; the dynamic part follows, aligned to 16 */
  uint32_t local_bytes;
  uint32_t max_threads; /* of .maxntid or .reqntid; 0: no limit */
  uint32_t constant_bytes;
  struct ptx_function *next;
} ptx_function;

typedef struct ptx_variable {
  char *name;
  uint64_t address;
  size_t bytes;
  struct ptx_variable *next;
} ptx_variable;

typedef struct ptx_program {
  ptx_function *functions;
  ptx_variable *variables;
  int version; /* 88: 8.8 */
  int target;  /* 62 */
} ptx_program;

/* "fma", ... */
const char *ptx_operation_name(unsigned code);
/* "f32", ... */
const char *ptx_type_name(ptx_type type);

#endif
