/* cum_sum: the running sum along an axis, from either end, with or without the entry itself; integers wrap. */
#include "kernels/axis.h"
#include "kernels/dtypes.h"

typedef struct cum_state cum_state;
typedef void (*cum_function)(const cum_state *s, const void *x, void *y, int64_t first, int64_t width);

struct cum_state {
  ert_axis axis;
  cum_function function;
  bool exclusive, reverse;
};

/* Each row is the row before it plus a row of x: its own, or the one before. */
#define CUM(T)                                                                                            \
  static void cum_##T(const cum_state *s, const void *x_all, void *y_all, int64_t first, int64_t width) { \
    const int64_t n = s->axis.n, inner = s->axis.inner, step = s->reverse ? -inner : inner;               \
    const T *x = (const T *)x_all + first + (s->reverse ? (n - 1) * inner : 0);                           \
    T *y = (T *)y_all + first + (s->reverse ? (n - 1) * inner : 0);                                       \
    for (int64_t i = 0; i < width; i++) y[i] = s->exclusive ? (T)0 : x[i];                                \
    for (int64_t k = 1; k < n; k++, x += step, y += step) {                                               \
      const T *add = s->exclusive ? x : x + step;                                                         \
      for (int64_t i = 0; i < width; i++) y[i + step] = (T)(y[i] + add[i]);                               \
    }                                                                                                     \
  }
CUM(float)
CUM(uint8_t)
CUM(uint16_t)
CUM(uint32_t)
CUM(uint64_t)

static const cum_function functions[EDGERT_BOOL + 1] = {
    [EDGERT_F32] = cum_float,    [EDGERT_U8] = cum_uint8_t,   [EDGERT_I8] = cum_uint8_t,
    [EDGERT_U16] = cum_uint16_t, [EDGERT_I16] = cum_uint16_t, [EDGERT_U32] = cum_uint32_t,
    [EDGERT_I32] = cum_uint32_t, [EDGERT_U64] = cum_uint64_t, [EDGERT_I64] = cum_uint64_t,
};

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  int64_t axis, exclusive, reverse;
  void *state;
  ERT_TRY(ert_state(p, sizeof(cum_state), &state));
  cum_state *s = state;
  ERT_TRY(ert_expect_same_type(p, x, p->step->out[0]));
  ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
  ERT_TRY(ert_int_or(p, "exclusive", 0, 1, 0, &exclusive));
  ERT_TRY(ert_int_or(p, "reverse", 0, 1, 0, &reverse));
  s->function = functions[x->dtype];
  if (!s->function) return ert_reject(p, "element type", "a number", "%d", x->dtype);
  s->exclusive = exclusive == 1;
  s->reverse = reverse == 1;
  ert_axis_plan(p, x, (int)axis, (int)axis + 1, 2, &s->axis);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const cum_state *s = step->state;
  begin = ert_cut_at(s->axis.units, step->tasks, begin);
  end = ert_cut_at(s->axis.units, step->tasks, end);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first, width = ert_axis_unit(&s->axis, unit, &first);
    s->function(s, step->in[0]->data, step->out[0]->data, first, width);
  }
}

const ert_kernel ert_kernel_cum_sum = {.name = "cum_sum", .prepare = prepare, .run = run};
