/* The pointwise functions of two variables: their numbers and names. */
#ifndef ERT_KERNELS_BINARY_KINDS_H
#define ERT_KERNELS_BINARY_KINDS_H

/* In the order of BINARY_KINDS of packer/ir/ops/elementwise.py, which holds the definitions.
 * X(NAME, "name", element types: f = float32, i = signed integers, u = unsigned integers, b = bool) */
#define ERT_BINARY_KIND_LIST(X)            \
  X(ADD, "add", "fiu")                     \
  X(SUB, "sub", "fiu")                     \
  X(MUL, "mul", "fiu")                     \
  X(DIV, "div", "fiu")                     \
  X(MOD, "mod", "fiu")                     \
  X(FMOD, "fmod", "fiu")                   \
  X(POW, "pow", "fiu")                     \
  X(MIN, "min", "fiu")                     \
  X(MAX, "max", "fiu")                     \
  X(PRELU, "prelu", "fiu")                 \
  X(EQUAL, "equal", "fiub")                \
  X(LESS, "less", "fiu")                   \
  X(LESS_EQUAL, "less_equal", "fiu")       \
  X(GREATER, "greater", "fiu")             \
  X(GREATER_EQUAL, "greater_equal", "fiu") \
  X(AND, "and", "b")                       \
  X(OR, "or", "b")                         \
  X(XOR, "xor", "b")                       \
  X(BITWISE_AND, "bitwise_and", "iu")      \
  X(BITWISE_OR, "bitwise_or", "iu")        \
  X(BITWISE_XOR, "bitwise_xor", "iu")      \
  X(SHIFT_LEFT, "shift_left", "u")         \
  X(SHIFT_RIGHT, "shift_right", "u")

typedef enum ert_binary_kind {
#define X(upper, lower, types) ERT_BINARY_##upper,
  ERT_BINARY_KIND_LIST(X)
#undef X
      ERT_BINARY_KIND_COUNT
} ert_binary_kind;

/* How the two operands of a row meet. */
typedef enum ert_form {
  ERT_FORM_SAME,    /* a[i], b[i] */
  ERT_FORM_A_ONE,   /* a[0], b[i] */
  ERT_FORM_B_ONE,   /* a[i], b[0] */
  ERT_FORM_A_LANES, /* a[i % 16], b[i]; whole blocks of 16 */
  ERT_FORM_B_LANES, /* a[i], b[i % 16] */
} ert_form;

/* A kind on floats, by libm: pow, which has a vector form too, mod and fmod. */
float (*ert_binary_libm(int kind))(float a, float b);

#endif
