/* The pointwise functions of one variable: numbers, names and element types, and activations fused into other steps. */
#ifndef ERT_KERNELS_UNARY_KINDS_H
#define ERT_KERNELS_UNARY_KINDS_H

#include "base/kernel.h"

/* In the order of UNARY_KINDS of packer/ir/ops/elementwise.py, which holds the definitions.
 * X(NAME, "name", element types: f = float32, i = signed integers, u = unsigned integers, b = bool) */
#define ERT_UNARY_KIND_LIST(X)                 \
  X(IDENTITY, "identity", "fiub")              \
  X(ABS, "abs", "fiu")                         \
  X(NEG, "neg", "fi")                          \
  X(SIGN, "sign", "fiu")                       \
  X(NOT, "not", "b")                           \
  X(BITWISE_NOT, "bitwise_not", "iu")          \
  X(CEIL, "ceil", "f")                         \
  X(FLOOR, "floor", "f")                       \
  X(ROUND, "round", "f")                       \
  X(EXP, "exp", "f")                           \
  X(LOG, "log", "f")                           \
  X(SQRT, "sqrt", "f")                         \
  X(RECIPROCAL, "reciprocal", "f")             \
  X(SIN, "sin", "f")                           \
  X(COS, "cos", "f")                           \
  X(TAN, "tan", "f")                           \
  X(ASIN, "asin", "f")                         \
  X(ACOS, "acos", "f")                         \
  X(ATAN, "atan", "f")                         \
  X(SINH, "sinh", "f")                         \
  X(COSH, "cosh", "f")                         \
  X(TANH, "tanh", "f")                         \
  X(ASINH, "asinh", "f")                       \
  X(ACOSH, "acosh", "f")                       \
  X(ATANH, "atanh", "f")                       \
  X(ERF, "erf", "f")                           \
  X(RELU, "relu", "fi")                        \
  X(LEAKY_RELU, "leaky_relu", "f")             \
  X(ELU, "elu", "f")                           \
  X(SELU, "selu", "f")                         \
  X(CELU, "celu", "f")                         \
  X(THRESHOLDED_RELU, "thresholded_relu", "f") \
  X(HARD_SIGMOID, "hard_sigmoid", "f")         \
  X(HARD_SWISH, "hard_swish", "f")             \
  X(SIGMOID, "sigmoid", "f")                   \
  X(SILU, "silu", "f")                         \
  X(SOFTPLUS, "softplus", "f")                 \
  X(SOFTSIGN, "softsign", "f")                 \
  X(MISH, "mish", "f")                         \
  X(GELU, "gelu", "f")                         \
  X(GELU_TANH, "gelu_tanh", "f")               \
  X(CLIP, "clip", "f")                         \
  X(SHRINK, "shrink", "fiu")                   \
  X(IS_NAN, "is_nan", "f")                     \
  X(IS_INF, "is_inf", "f")

typedef enum ert_unary_kind {
#define X(upper, lower, types) ERT_UNARY_##upper,
  ERT_UNARY_KIND_LIST(X)
#undef X
      ERT_UNARY_KIND_COUNT
} ert_unary_kind;

/* Names by number, NULL past the last; a letter of `ert_unary_types[kind]` for each element type the function takes. */
extern const char *const ert_unary_names[ERT_UNARY_KIND_COUNT + 1];
extern const char *const ert_unary_types[ERT_UNARY_KIND_COUNT];

/* The libm function of a kind that is one (sin and cos, which have vector forms too, tan, inverses, hyperbolic ones);
 * identity for the others. */
float (*ert_unary_libm(int kind))(float);

/* A float32 function applied behind another operator; IDENTITY if there is none. */
typedef struct ert_activation {
  int kind; /* ert_unary_kind that maps float32 to float32 */
  float alpha, beta;
} ert_activation;

/* The step's `activation` and `activation_parameters` attributes; for prepare. */
edgert_status ert_activation_read(const ert_prepare *p, ert_activation *out);

#endif
