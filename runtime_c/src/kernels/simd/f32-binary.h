/* Pointwise functions of two rows of float32 vectors, and scale-shift; forms and kinds as in binary_kinds.h. */
#include "kernels/binary_kinds.h"

ERT_INLINE vf binary_add(vf a, vf b) { return a + b; }
ERT_INLINE vf binary_sub(vf a, vf b) { return a - b; }
ERT_INLINE vf binary_mul(vf a, vf b) { return a * b; }
ERT_INLINE vf binary_div(vf a, vf b) { return a / b; }
ERT_INLINE vf binary_prelu(vf a, vf b) { return vselect(a < vzero(), a * b, a); }

/* The 16 values that a repeated operand has: one value 16 times, or lanes. */
ERT_INLINE void binary_repeat(vf *to, const float *from, bool lanes) {
  for (size_t j = 0; j < V16; j++) to[j] = lanes ? vload(from + j * VL) : vsplat(*from);
}

/* A repeated operand is read once; `a_moves` and `b_moves` are compile-time constants. */
ERT_INLINE void binary_rows(vf (*op)(vf, vf), bool a_moves, bool b_moves, bool lanes, const float *a, const float *b,
                            float *y, size_t n) {
  vf ca[V16], cb[V16];
  size_t i = 0;
  if (!a_moves) binary_repeat(ca, a, lanes);
  if (!b_moves) binary_repeat(cb, b, lanes);
  for (; i + 16 <= n; i += 16)
    for (size_t j = 0; j < V16; j++)
      vstore(y + i + j * VL, op(a_moves ? vload(a + i + j * VL) : ca[j], b_moves ? vload(b + i + j * VL) : cb[j]));
  for (; i < n; i += VL) {
    size_t part = n - i < VL ? n - i : VL;
    vstore_part(y + i, op(a_moves ? vload_part(a + i, part) : ca[0], b_moves ? vload_part(b + i, part) : cb[0]), part);
  }
}

#define BINARY_CASE(op)                                                   \
  switch (form) {                                                         \
    case ERT_FORM_SAME:                                                   \
      binary_rows(op, true, true, false, a, b, y, n);                     \
      return;                                                             \
    case ERT_FORM_A_ONE:                                                  \
    case ERT_FORM_A_LANES:                                                \
      binary_rows(op, false, true, form == ERT_FORM_A_LANES, a, b, y, n); \
      return;                                                             \
    default:                                                              \
      binary_rows(op, true, false, form == ERT_FORM_B_LANES, a, b, y, n); \
      return;                                                             \
  }

static void f32_binary(int kind, int form, const float *a, const float *b, float *y, size_t n) {
  switch (kind) {
    case ERT_BINARY_ADD:
      BINARY_CASE(binary_add)
    case ERT_BINARY_SUB:
      BINARY_CASE(binary_sub)
    case ERT_BINARY_MUL:
      BINARY_CASE(binary_mul)
    case ERT_BINARY_DIV:
      BINARY_CASE(binary_div)
    case ERT_BINARY_MIN:
      BINARY_CASE(vmin_nan)
    case ERT_BINARY_MAX:
      BINARY_CASE(vmax_nan)
    case ERT_BINARY_PRELU:
      BINARY_CASE(binary_prelu)
    case ERT_BINARY_POW:
      BINARY_CASE(vpow)
    default: {
      float (*function)(float, float) = ert_binary_libm(kind);
      size_t a_mask = form == ERT_FORM_A_ONE ? 0 : form == ERT_FORM_A_LANES ? 15 : SIZE_MAX;
      size_t b_mask = form == ERT_FORM_B_ONE ? 0 : form == ERT_FORM_B_LANES ? 15 : SIZE_MAX;
      for (size_t i = 0; i < n; i++) y[i] = function(a[i & a_mask], b[i & b_mask]);
    }
  }
}
#undef BINARY_CASE

ERT_INLINE vf affine_clip(vf x, vf scale, vf shift, vf lo, vf hi) { return vmin(hi, vmax(lo, x * scale + shift)); }

static void f32_affine(int form, const float *x, const float *scale, const float *shift, float low, float high,
                       float *y, size_t n) {
  const vf lo = vsplat(low), hi = vsplat(high);
  size_t i = 0;
  if (form == ERT_FORM_SAME) {
    for (; i + VL <= n; i += VL) vstore(y + i, affine_clip(vload(x + i), vload(scale + i), vload(shift + i), lo, hi));
    const size_t part = n - i;
    if (part > 0)
      vstore_part(
          y + i, affine_clip(vload_part(x + i, part), vload_part(scale + i, part), vload_part(shift + i, part), lo, hi),
          part);
    return;
  }
  vf by[V16], plus[V16];
  binary_repeat(by, scale, form == ERT_FORM_B_LANES);
  binary_repeat(plus, shift, form == ERT_FORM_B_LANES);
  for (; i + 16 <= n; i += 16)
    for (size_t j = 0; j < V16; j++) vstore(y + i + j * VL, affine_clip(vload(x + i + j * VL), by[j], plus[j], lo, hi));
  for (; i < n; i += VL) {
    size_t part = n - i < VL ? n - i : VL;
    vstore_part(y + i, affine_clip(vload_part(x + i, part), by[0], plus[0], lo, hi), part);
  }
}
