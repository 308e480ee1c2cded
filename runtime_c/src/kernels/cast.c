/* cast: every element in another element type, as C does; float32 to integers truncates and saturates, NaN gives 0. */
#include <string.h>

#include "kernels/dtypes.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

typedef void (*cast_function)(const void *x, void *y, int64_t n);

typedef struct cast_state {
  ert_walk walk;
  cast_function function;
  size_t in_size, out_size;
} cast_state;

#define ROW(name, X, Y, expression)                         \
  static void name(const void *from, void *to, int64_t n) { \
    const X *x = from;                                      \
    Y *y = to;                                              \
    for (int64_t i = 0; i < n; i++) {                       \
      const X v = x[i];                                     \
      y[i] = (Y)(expression);                               \
    }                                                       \
  }

/* Integers to integers depend on the signedness of the source only, and on the width of the destination. */
#define FROM_INTEGER(TYPE, X)        \
  ROW(cast_##X##_8, X, uint8_t, v)   \
  ROW(cast_##X##_16, X, uint16_t, v) \
  ROW(cast_##X##_32, X, uint32_t, v) \
  ROW(cast_##X##_64, X, uint64_t, v) \
  ROW(cast_##X##_float, X, float, v) \
  ROW(cast_##X##_bool, X, uint8_t, v != 0)
ERT_INTEGER_TYPES(FROM_INTEGER)

/* The bounds are the lowest value and the power of two just above the highest, which floats hold exactly. */
#define FROM_FLOAT(Y, lowest, above, highest) \
  ROW(cast_float_##Y, float, Y, v != v ? 0 : v < (lowest) ? (Y)(lowest) : v >= (above) ? (highest) : (Y)v)
FROM_FLOAT(uint8_t, 0.0f, 256.0f, UINT8_MAX)
FROM_FLOAT(uint16_t, 0.0f, 65536.0f, UINT16_MAX)
FROM_FLOAT(uint32_t, 0.0f, 4294967296.0f, UINT32_MAX)
FROM_FLOAT(uint64_t, 0.0f, 18446744073709551616.0f, UINT64_MAX)
FROM_FLOAT(int8_t, -128.0f, 128.0f, INT8_MAX)
FROM_FLOAT(int16_t, -32768.0f, 32768.0f, INT16_MAX)
FROM_FLOAT(int32_t, -2147483648.0f, 2147483648.0f, INT32_MAX)
FROM_FLOAT(int64_t, -9223372036854775808.0f, 9223372036854775808.0f, INT64_MAX)
ROW(cast_float_bool, float, uint8_t, v != 0)
ROW(cast_float_float, float, float, v)

static const cast_function from_float[] = {
#define X(name, T) [EDGERT_##name] = cast_float_##T,
    ERT_INTEGER_TYPES(X)
#undef X
        [EDGERT_F32] = cast_float_float,
    [EDGERT_BOOL] = cast_float_bool,
};

typedef struct integer_casts {
  cast_function to_8, to_16, to_32, to_64, to_float, to_bool;
} integer_casts;

#define CASTS(T) {cast_##T##_8, cast_##T##_16, cast_##T##_32, cast_##T##_64, cast_##T##_float, cast_##T##_bool}
static const integer_casts from_integer[] = {
#define X(name, T) [EDGERT_##name] = CASTS(T),
    ERT_INTEGER_TYPES(X)
#undef X
        [EDGERT_BOOL] = CASTS(uint8_t),
};

static cast_function find(uint8_t from, uint8_t to) {
  if (from == EDGERT_F32) return from_float[to];
  const integer_casts *casts = &from_integer[from];
  if (to == EDGERT_F32) return casts->to_float;
  if (to == EDGERT_BOOL) return casts->to_bool;
  switch (ert_dtype_bytes(to)) {
    case 1:
      return casts->to_8;
    case 2:
      return casts->to_16;
    case 4:
      return casts->to_32;
    default:
      return casts->to_64;
  }
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  int64_t to;
  ERT_TRY(ert_int(p, "to", EDGERT_F32, EDGERT_BOOL, &to));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)to));
  ERT_TRY(ert_expect_shape(p, y, x->rank, x->shape));
  void *state;
  ERT_TRY(ert_state(p, sizeof(cast_state), &state));
  cast_state *s = state;
  s->function = find(x->dtype, y->dtype);
  s->in_size = ert_dtype_bytes(x->dtype);
  s->out_size = ert_dtype_bytes(y->dtype);
  ert_walk_over(2, (const ert_tensor *[]){x, y}, &s->walk);
  p->step->tasks = ert_cut_elements(x->elements, 1, p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const cast_state *s = step->state;
  ert_cursor c;
  for (int64_t left = ert_walk_part(&s->walk, step, begin, end, &c), n; left; left -= n) {
    n = ert_min64(ert_walk_left(&s->walk, &c), left);
    s->function((const char *)step->in[0]->data + (size_t)c.offset[0] * s->in_size,
                (char *)step->out[0]->data + (size_t)c.offset[1] * s->out_size, n);
    ert_walk_advance(&s->walk, &c, n);
  }
}

const ert_kernel ert_kernel_cast = {.name = "cast", .prepare = prepare, .run = run, .views = true};
