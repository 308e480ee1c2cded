/* arg_reduce: the index of the largest or smallest entry along an axis; a NaN counts as both. */
#include "kernels/axis.h"
#include "kernels/dtypes.h"
#include "kernels/simd/simd.h"

enum {
  ROWS = 64,
  STRIDE = 64
}; /* rows whose best are found together; floats among which the first such is found at once */

typedef struct arg_state arg_state;
typedef void (*arg_function)(const arg_state *s, const void *x, int64_t first, int64_t *y, int64_t width);

struct arg_state {
  ert_axis axis;
  const ert_simd *simd;
  arg_function function;
  bool smallest, last;
  bool rows; /* of floats: each output has neighbours of its own */
};

/* Rows in the order that makes the first of equals the wanted one; the best of each column so far is kept in `best`. */
#define ARG(T, is_nan)                                                                                  \
  static void arg_##T(const arg_state *s, const void *from, int64_t first, int64_t *y, int64_t width) { \
    const int64_t n = s->axis.n, inner = s->axis.inner, start = s->last ? n - 1 : 0;                    \
    const T *x = (const T *)from + first;                                                               \
    T best[ERT_AXIS_TILE];                                                                              \
    for (int64_t i = 0; i < width; i++) best[i] = x[start * inner + i], y[i] = start;                   \
    for (int64_t k = 1; k < n; k++) {                                                                   \
      const int64_t row = s->last ? n - 1 - k : k;                                                      \
      const T *at = x + row * inner;                                                                    \
      for (int64_t i = 0; i < width; i++) {                                                             \
        const T v = at[i], b = best[i];                                                                 \
        if ((s->smallest ? v < b : v > b) || (is_nan(v) && !is_nan(b))) best[i] = v, y[i] = row;        \
      }                                                                                                 \
    }                                                                                                   \
  }
#define NEVER(v)  false
#define IS_NAN(v) ((v) != (v))
ARG(float, IS_NAN)
#define X(name, T) ARG(T, NEVER)
ERT_INTEGER_TYPES(X)
#undef X

static const arg_function functions[EDGERT_BOOL + 1] = {
#define X(name, T) [EDGERT_##name] = arg_##T,
    ERT_INTEGER_TYPES(X)
#undef X
        [EDGERT_F32] = arg_float,
};

/* Whether x is among the best: a NaN there is one. */
static inline bool is_best(float x, float best) { return x == best || x != x; }

static int64_t first_best(const float *x, int64_t n, float best) {
  for (int64_t i = 0;; i += STRIDE) {
    const int32_t count = (int32_t)ert_min64(n - i, STRIDE);
    int32_t at = STRIDE;
    for (int32_t k = count - 1; k >= 0; k--) at = is_best(x[i + k], best) ? k : at;
    if (at < STRIDE) return i + at;
  }
}

static int64_t last_best(const float *x, int64_t n, float best) {
  while (!is_best(x[n - 1], best)) n--;
  return n - 1;
}

/* `count` rows, one after the other. */
static void arg_rows(const arg_state *s, const float *x, int64_t *y, int64_t count) {
  const int64_t n = s->axis.n;
  float best[ROWS];
  for (int64_t rows; count > 0; count -= rows) {
    rows = ert_min64(count, ROWS);
    s->simd->fold_rows(s->smallest ? ERT_FOLD_MIN : ERT_FOLD_MAX, x, (ptrdiff_t)n, (size_t)n, (size_t)rows, best);
    for (int64_t r = 0; r < rows; r++, x += n) *y++ = s->last ? last_best(x, n, best[r]) : first_best(x, n, best[r]);
  }
}

static edgert_status prepare(ert_prepare *p) {
  static const char *const kinds[] = {"max", "min", NULL};
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  int64_t axis, keepdims, last, shape[ERT_MAX_RANK];
  uint32_t rank = 0;
  int kind;
  void *state;
  ERT_TRY(ert_state(p, sizeof(arg_state), &state));
  arg_state *s = state;
  ERT_TRY(ert_choice(p, "kind", kinds, &kind));
  ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
  ERT_TRY(ert_int_or(p, "keepdims", 0, 1, 1, &keepdims));
  ERT_TRY(ert_int_or(p, "select_last", 0, 1, 0, &last));
  for (int i = 0; i < x->rank; i++)
    if (i != axis || keepdims) shape[rank++] = i == axis ? 1 : x->shape[i];
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_I64));
  ERT_TRY(ert_expect_shape(p, y, rank, shape));
  s->function = functions[x->dtype];
  if (!s->function) return ert_reject(p, "element type", "a number", "%d", x->dtype);
  if (x->shape[axis] == 0) return ert_reject(p, "size along the axis", "1 or more", "0");
  s->simd = p->simd;
  s->smallest = kind == 1;
  s->last = last == 1;
  ert_axis_plan(p, x, (int)axis, (int)axis + 1, 2, &s->axis);
  s->rows = x->dtype == EDGERT_F32 && s->axis.inner == 1;
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const arg_state *s = step->state;
  const ert_axis *a = &s->axis;
  begin = ert_cut_at(a->units, step->tasks, begin);
  end = ert_cut_at(a->units, step->tasks, end);
  if (s->rows) {
    arg_rows(s, (const float *)step->in[0]->data + begin * a->n, (int64_t *)step->out[0]->data + begin, end - begin);
    return;
  }
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first, width = ert_axis_unit(a, unit, &first);
    int64_t *y = (int64_t *)step->out[0]->data + unit / a->tiles * a->inner + unit % a->tiles * ERT_AXIS_TILE;
    s->function(s, step->in[0]->data, first, y, width);
  }
}

const ert_kernel ert_kernel_arg_reduce = {.name = "arg_reduce", .prepare = prepare, .run = run};
