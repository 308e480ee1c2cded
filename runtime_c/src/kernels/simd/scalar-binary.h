/* The pointwise functions of two rows of float32, and scale-shift: what f32-binary.h is compared with. */
#include "kernels/binary_kinds.h"

static float binary_scalar(int kind, float a, float b) {
  switch (kind) {
    case ERT_BINARY_ADD:
      return a + b;
    case ERT_BINARY_SUB:
      return a - b;
    case ERT_BINARY_MUL:
      return a * b;
    case ERT_BINARY_DIV:
      return a / b;
    case ERT_BINARY_MIN:
      return a != a || a < b ? a : b;
    case ERT_BINARY_MAX:
      return a != a || a > b ? a : b;
    case ERT_BINARY_PRELU:
      return a < 0 ? a * b : a;
    default:
      return ert_binary_libm(kind)(a, b);
  }
}

static void scalar_binary(int kind, int form, const float *a, const float *b, float *y, size_t n) {
  size_t a_mask = form == ERT_FORM_A_ONE ? 0 : form == ERT_FORM_A_LANES ? 15 : SIZE_MAX;
  size_t b_mask = form == ERT_FORM_B_ONE ? 0 : form == ERT_FORM_B_LANES ? 15 : SIZE_MAX;
  for (size_t i = 0; i < n; i++) y[i] = binary_scalar(kind, a[i & a_mask], b[i & b_mask]);
}

static void scalar_affine(int form, const float *x, const float *scale, const float *shift, float lo, float hi,
                          float *y, size_t n) {
  size_t mask = form == ERT_FORM_B_ONE ? 0 : form == ERT_FORM_B_LANES ? 15 : SIZE_MAX;
  for (size_t i = 0; i < n; i++) {
    const float v = x[i] * scale[i & mask] + shift[i & mask];
    y[i] = v < lo ? lo : v > hi ? hi : v;
  }
}
