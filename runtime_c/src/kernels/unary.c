/* unary: a function of one variable on every element. Any layout; elements of padding lanes are mapped too. */
#include <math.h>
#include <string.h>

#include "kernels/dtypes.h"
#include "kernels/simd/simd.h"
#include "kernels/tensor.h"
#include "kernels/unary_kinds.h"
#include "kernels/walk.h"

typedef void (*unary_function)(int kind, float alpha, float beta, const void *x, void *y, int64_t n);

typedef struct unary_state {
  ert_walk walk;
  unary_function function; /* NULL: the float32 function of the instruction set */
  void (*simd)(int kind, float alpha, float beta, const float *x, float *y, size_t n);
  size_t in_size, out_size; /* of an element */
  int kind;
  float alpha, beta;
} unary_state;

/* Shrinking computes in double, which holds every value but the largest 64-bit ones, and saturates. */
#define SHRINK(T, v, lowest, highest)                                                              \
  (double)(v)<-(double)alpha ? shrink_##T((double)(v) + (double)beta) : (double)(v)>(double) alpha \
      ? shrink_##T((double)(v) - (double)beta)                                                     \
      : (T)0

#define UNARY_SHRINK(T, lowest, highest) \
  static T shrink_##T(double v) { return v >= (double)(highest) ? (highest) : v > (double)(lowest) ? (T)v : (lowest); }

#define UNARY_SIGNED(T, U, lowest, highest)                                                        \
  UNARY_SHRINK(T, lowest, highest)                                                                 \
  static void unary_##T(int kind, float alpha, float beta, const void *in, void *out, int64_t n) { \
    const T *x = in;                                                                               \
    T *y = out;                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
      T v = x[i];                                                                                  \
      switch (kind) {                                                                              \
        case ERT_UNARY_ABS:                                                                        \
          y[i] = v < 0 ? (T)(U)(0u - (U)v) : v;                                                    \
          break;                                                                                   \
        case ERT_UNARY_NEG:                                                                        \
          y[i] = (T)(U)(0u - (U)v);                                                                \
          break;                                                                                   \
        case ERT_UNARY_SIGN:                                                                       \
          y[i] = (T)((v > 0) - (v < 0));                                                           \
          break;                                                                                   \
        case ERT_UNARY_BITWISE_NOT:                                                                \
          y[i] = (T)~v;                                                                            \
          break;                                                                                   \
        case ERT_UNARY_RELU:                                                                       \
          y[i] = v > 0 ? v : 0;                                                                    \
          break;                                                                                   \
        default:                                                                                   \
          y[i] = SHRINK(T, v, lowest, highest);                                                    \
      }                                                                                            \
    }                                                                                              \
  }

#define UNARY_UNSIGNED(T, highest)                                                                 \
  UNARY_SHRINK(T, (T)0, highest)                                                                   \
  static void unary_##T(int kind, float alpha, float beta, const void *in, void *out, int64_t n) { \
    const T *x = in;                                                                               \
    T *y = out;                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
      T v = x[i];                                                                                  \
      switch (kind) {                                                                              \
        case ERT_UNARY_ABS:                                                                        \
          y[i] = v;                                                                                \
          break;                                                                                   \
        case ERT_UNARY_SIGN:                                                                       \
          y[i] = v > 0;                                                                            \
          break;                                                                                   \
        case ERT_UNARY_BITWISE_NOT:                                                                \
          y[i] = (T)~v;                                                                            \
          break;                                                                                   \
        default:                                                                                   \
          y[i] = SHRINK(T, v, 0, highest);                                                         \
      }                                                                                            \
    }                                                                                              \
  }

UNARY_SIGNED(int8_t, uint8_t, INT8_MIN, INT8_MAX)
UNARY_SIGNED(int16_t, uint16_t, INT16_MIN, INT16_MAX)
UNARY_SIGNED(int32_t, uint32_t, INT32_MIN, INT32_MAX)
UNARY_SIGNED(int64_t, uint64_t, INT64_MIN, INT64_MAX)
UNARY_UNSIGNED(uint8_t, UINT8_MAX)
UNARY_UNSIGNED(uint16_t, UINT16_MAX)
UNARY_UNSIGNED(uint32_t, UINT32_MAX)
UNARY_UNSIGNED(uint64_t, UINT64_MAX)

static const unary_function integer_functions[] = {
    [EDGERT_U8] = unary_uint8_t,   [EDGERT_I8] = unary_int8_t,    [EDGERT_U16] = unary_uint16_t,
    [EDGERT_I16] = unary_int16_t,  [EDGERT_I32] = unary_int32_t,  [EDGERT_I64] = unary_int64_t,
    [EDGERT_U32] = unary_uint32_t, [EDGERT_U64] = unary_uint64_t,
};

static void unary_not(int kind, float alpha, float beta, const void *in, void *out, int64_t n) {
  (void)kind, (void)alpha, (void)beta;
  const uint8_t *x = in;
  uint8_t *y = out;
  for (int64_t i = 0; i < n; i++) y[i] = !x[i];
}

static void unary_test(int kind, float alpha, float beta, const void *in, void *out, int64_t n) {
  const float *x = in;
  uint8_t *y = out;
  if (kind == ERT_UNARY_IS_NAN) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] != x[i];
  } else {
    float low = alpha != 0 ? -INFINITY : NAN, high = beta != 0 ? INFINITY : NAN;
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] == low) | (x[i] == high);
  }
}

#define UNARY_COPY(bytes)                                                                                  \
  static void unary_copy##bytes(int kind, float alpha, float beta, const void *in, void *out, int64_t n) { \
    (void)kind, (void)alpha, (void)beta;                                                                   \
    if (in != out) memcpy(out, in, (size_t)n * (bytes));                                                   \
  }
UNARY_COPY(1)
UNARY_COPY(2)
UNARY_COPY(4)
UNARY_COPY(8)

static unary_function copy_of(size_t bytes) {
  return bytes == 1 ? unary_copy1 : bytes == 2 ? unary_copy2 : bytes == 4 ? unary_copy4 : unary_copy8;
}

/* The cost of a value in element moves. */
static int64_t expected_cost(int kind) {
  if (kind <= ERT_UNARY_ROUND || kind == ERT_UNARY_RELU || kind == ERT_UNARY_CLIP) return 1;
  if (kind == ERT_UNARY_SIN || kind == ERT_UNARY_COS) return 3;
  return ert_unary_libm(kind) == ert_unary_libm(ERT_UNARY_IDENTITY) ? 3 : 40;
}

static edgert_status unary_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ert_allow_in_place(p, 0);
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  void *state;
  ERT_TRY(ert_state(p, sizeof(unary_state), &state));
  unary_state *s = state;
  ERT_TRY(ert_choice(p, "kind", ert_unary_names, &s->kind));
  ERT_TRY(ert_float_or(p, "alpha", 0, &s->alpha));
  ERT_TRY(ert_float_or(p, "beta", 0, &s->beta));
  if (!strchr(ert_unary_types[s->kind], ert_dtype_letter(x->dtype)))
    return ert_reject(p, "element type", "one that the function takes", "%s of type %d", ert_unary_names[s->kind],
                      x->dtype);
  bool test = s->kind == ERT_UNARY_IS_NAN || s->kind == ERT_UNARY_IS_INF;
  ert_tensor like = *x;
  if (test) {
    ERT_TRY(ert_expect_planar(p));
    like.dtype = EDGERT_BOOL;
    like.bytes = (size_t)x->elements;
  }
  ERT_TRY(ert_expect_same_type(p, &like, y));
  if (x->layout != ERT_LAYOUT_PLANAR && x->layout != ERT_LAYOUT_BLOCK16)
    return ert_reject(p, "layout", "planar or blocks of 16", "%d", x->layout);

  s->simd = p->simd->unary;
  s->in_size = ert_dtype_bytes(x->dtype);
  s->out_size = test ? 1 : s->in_size;
  if (test) {
    s->function = unary_test;
  } else if (s->kind == ERT_UNARY_IDENTITY && x->dtype != EDGERT_F32) {
    s->function = copy_of(s->in_size);
  } else if (x->dtype != EDGERT_F32) {
    s->function = x->dtype == EDGERT_BOOL ? unary_not : integer_functions[x->dtype];
  }
  ert_walk_over(2, (const ert_tensor *[]){x, y}, &s->walk);
  p->step->tasks = ert_cut_elements(s->walk.elements, expected_cost(s->kind), p->workers);
  return EDGERT_OK;
}

static void unary_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const unary_state *s = step->state;
  ert_cursor c;
  for (int64_t left = ert_walk_part(&s->walk, step, begin, end, &c), n; left; left -= n) {
    n = ert_min64(ert_walk_left(&s->walk, &c), left);
    const char *x = (const char *)step->in[0]->data + (size_t)c.offset[0] * s->in_size;
    char *y = (char *)step->out[0]->data + (size_t)c.offset[1] * s->out_size;
    if (s->function)
      s->function(s->kind, s->alpha, s->beta, x, y, n);
    else
      s->simd(s->kind, s->alpha, s->beta, (const float *)(const void *)x, (float *)(void *)y, (size_t)n);
    ert_walk_advance(&s->walk, &c, n);
  }
}

const ert_kernel ert_kernel_unary = {.name = "unary", .prepare = unary_prepare, .run = unary_run, .views = true};
