/* Names of the pointwise functions, and reading a fused activation from a step's attributes. */
#include "kernels/unary_kinds.h"

#include <math.h>
#include <string.h>

const char *const ert_unary_names[ERT_UNARY_KIND_COUNT + 1] = {
#define X(upper, lower, types) lower,
    ERT_UNARY_KIND_LIST(X)
#undef X
        NULL};

const char *const ert_unary_types[ERT_UNARY_KIND_COUNT] = {
#define X(upper, lower, types) types,
    ERT_UNARY_KIND_LIST(X)
#undef X
};

static float identity(float x) { return x; }

float (*ert_unary_libm(int kind))(float) {
  switch (kind) {
    case ERT_UNARY_SIN:
      return sinf;
    case ERT_UNARY_COS:
      return cosf;
    case ERT_UNARY_TAN:
      return tanf;
    case ERT_UNARY_ASIN:
      return asinf;
    case ERT_UNARY_ACOS:
      return acosf;
    case ERT_UNARY_ATAN:
      return atanf;
    case ERT_UNARY_SINH:
      return sinhf;
    case ERT_UNARY_COSH:
      return coshf;
    case ERT_UNARY_ASINH:
      return asinhf;
    case ERT_UNARY_ACOSH:
      return acoshf;
    case ERT_UNARY_ATANH:
      return atanhf;
    default:
      return identity;
  }
}

edgert_status ert_activation_read(const ert_prepare *p, ert_activation *out) {
  *out = (ert_activation){.kind = ERT_UNARY_IDENTITY};
  if (!ert_attribute_find(p, "activation")) return EDGERT_OK;
  int kind;
  const float *parameters;
  ERT_TRY(ert_choice(p, "activation", ert_unary_names, &kind));
  ERT_TRY(ert_floats(p, "activation_parameters", 2, &parameters));
  if (!strchr(ert_unary_types[kind], 'f') || kind == ERT_UNARY_IS_NAN || kind == ERT_UNARY_IS_INF)
    return ert_reject(p, "activation", "a function from float32 to float32", "%s", ert_unary_names[kind]);
  *out = (ert_activation){.kind = kind, .alpha = parameters[0], .beta = parameters[1]};
  return EDGERT_OK;
}
