/* quantize_linear and dequantize_linear: float32 to integers and back, by one scale and zero point or by axis. */
#include "kernels/dtypes.h"
#include "kernels/simd/i8.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

typedef void (*quantize_row)(const float *x, float scale, int32_t zero, void *y, int64_t n);
typedef void (*dequantize_row)(const void *x, int64_t zero, float scale, float *y, int64_t n);

typedef struct quantize_state {
  quantize_row quantize;
  dequantize_row dequantize;
  const ert_i8 *bytes;           /* what both are for u8; else NULL */
  ert_walk walk;                 /* of x and y */
  int64_t channels, inner;       /* runs of `inner` elements share a scale; `channels` such runs in turn */
  size_t in_size, out_size;      /* of an element */
  int64_t scale_step, zero_step; /* 1 by axis, 0 for all */
} quantize_state;

/* Quotients are held to +-2^20, far beyond every result, where adding 1.5 * 2^23 rounds halves to even. */
#define QUANTIZE(name, T, lowest, highest)                                                          \
  static void quantize_##name(const float *x, float scale, int32_t zero, void *to, int64_t n) {     \
    T *y = to;                                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                               \
      float v = x[i] / scale;                                                                       \
      float held = v < -1048576.0f ? -1048576.0f : v > 1048576.0f ? 1048576.0f : v == v ? v : 0.0f; \
      int32_t q = (int32_t)((held + 12582912.0f) - 12582912.0f) + zero;                             \
      q = q<(lowest) ? (lowest) : q>(highest) ? (highest) : q;                                      \
      y[i] = v == v ? (T)q : (T)0;                                                                  \
    }                                                                                               \
  }
QUANTIZE(i8, int8_t, INT8_MIN, INT8_MAX)
QUANTIZE(u16, uint16_t, 0, UINT16_MAX)
QUANTIZE(i16, int16_t, INT16_MIN, INT16_MAX)

#define DEQUANTIZE(name, T)                                                                         \
  static void dequantize_##name(const void *from, int64_t zero, float scale, float *y, int64_t n) { \
    const T *x = from;                                                                              \
    for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] - zero) * scale;                            \
  }
DEQUANTIZE(i8, int8_t)
DEQUANTIZE(u16, uint16_t)
DEQUANTIZE(i16, int16_t)
DEQUANTIZE(i32, int32_t)

static const quantize_row quantizers[EDGERT_BOOL + 1] = {
    [EDGERT_I8] = quantize_i8, [EDGERT_U16] = quantize_u16, [EDGERT_I16] = quantize_i16};
static const dequantize_row dequantizers[EDGERT_BOOL + 1] = {
    [EDGERT_I8] = dequantize_i8,
    [EDGERT_U16] = dequantize_u16,
    [EDGERT_I16] = dequantize_i16,
    [EDGERT_I32] = dequantize_i32,
};

/* A scale or zero point: one element, or one for each index of `axis`. */
static edgert_status check_parameter(const ert_prepare *p, const ert_tensor *t, int64_t axis, int64_t *step) {
  const ert_tensor *x = p->step->in[0];
  *step = t->rank == 0 ? 0 : 1;
  if (t->rank == 0) return EDGERT_OK;
  if (axis >= x->rank) return ert_reject(p, "attribute 'axis'", "a dimension of the input", "%lld", (long long)axis);
  return ert_expect_shape(p, t, 1, &x->shape[axis]);
}

static edgert_status prepare_both(ert_prepare *p, const ert_tensor *quantized, const ert_tensor *zero) {
  const ert_tensor *x = p->step->in[0];
  quantize_state *s = p->step->state;
  int64_t axis;
  ERT_TRY(ert_expect_layout(p, p->step->out[0], (ert_layout)x->layout));
  ERT_TRY(ert_int(p, "axis", 0, ERT_MAX_RANK, &axis));
  ERT_TRY(ert_expect_dtype(p, p->step->in[1], EDGERT_F32));
  ERT_TRY(ert_expect_shape(p, p->step->out[0], x->rank, x->shape));
  ERT_TRY(check_parameter(p, p->step->in[1], axis, &s->scale_step));
  if (s->scale_step || (zero && zero->rank > 0)) ERT_TRY(ert_expect_planar(p)); /* else also blocks of 16 */
  if (x->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  if (zero) {
    ERT_TRY(ert_expect_dtype(p, zero, (edgert_dtype)quantized->dtype));
    ERT_TRY(check_parameter(p, zero, axis, &s->zero_step));
  }
  s->channels = 1;
  s->inner = x->elements;
  if ((s->scale_step || s->zero_step) && x->elements) {
    s->channels = x->shape[axis];
    s->inner = ert_extent(x, (int)axis + 1, x->rank);
  }
  s->in_size = ert_dtype_bytes(x->dtype);
  s->out_size = ert_dtype_bytes(p->step->out[0]->dtype);
  ert_walk_over(2, (const ert_tensor *[]){x, p->step->out[0]}, &s->walk);
  if (x->layout == ERT_LAYOUT_BLOCK16) s->inner = s->walk.elements;
  p->step->tasks = ert_cut_elements(s->walk.elements, 1, p->workers);
  return EDGERT_OK;
}

static edgert_status quantize_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 3, 3, 1, 1));
  const ert_tensor *y = p->step->out[0];
  void *state;
  ERT_TRY(ert_state(p, sizeof(quantize_state), &state));
  quantize_state *s = state;
  if (y->dtype == EDGERT_U8) s->bytes = ert_i8_of(p->simd);
  s->quantize = quantizers[y->dtype];
  if (!s->quantize && !s->bytes) return ert_reject(p, "output type", "u8, i8, u16 or i16", "%d", y->dtype);
  ERT_TRY(ert_expect_dtype(p, p->step->in[0], EDGERT_F32));
  return prepare_both(p, y, p->step->in[2]);
}

static edgert_status dequantize_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 3, 1, 1));
  const ert_tensor *x = p->step->in[0];
  void *state;
  ERT_TRY(ert_state(p, sizeof(quantize_state), &state));
  quantize_state *s = state;
  if (x->dtype == EDGERT_U8) s->bytes = ert_i8_of(p->simd);
  s->dequantize = dequantizers[x->dtype];
  if (!s->dequantize && !s->bytes) return ert_reject(p, "input type", "u8, i8, u16, i16 or i32", "%d", x->dtype);
  ERT_TRY(ert_expect_dtype(p, p->step->out[0], EDGERT_F32));
  return prepare_both(p, x, p->step->n_in > 2 ? p->step->in[2] : NULL);
}

static int32_t zero_at(const ert_tensor *t, int64_t i) {
  if (!t) return 0;
  switch (t->dtype) {
    case EDGERT_U8:
      return ((const uint8_t *)t->data)[i];
    case EDGERT_I8:
      return ((const int8_t *)t->data)[i];
    case EDGERT_U16:
      return ((const uint16_t *)t->data)[i];
    case EDGERT_I16:
      return ((const int16_t *)t->data)[i];
    default:
      return ((const int32_t *)t->data)[i];
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const quantize_state *s = step->state;
  const ert_tensor *zeros = step->n_in > 2 ? step->in[2] : NULL;
  const float *scales = step->in[1]->data;
  int64_t at = ert_cut_element_at(s->walk.elements, step->tasks, begin);
  const int64_t stop = ert_cut_element_at(s->walk.elements, step->tasks, end);
  ert_cursor c;
  if (at < stop) ert_walk_seek(&s->walk, at, &c);
  while (at < stop) {
    const int64_t run = ert_min64(s->inner - at % s->inner, ert_walk_left(&s->walk, &c));
    const int64_t n = ert_min64(run, stop - at), channel = at / s->inner % s->channels;
    const char *x = (const char *)step->in[0]->data + (size_t)c.offset[0] * s->in_size;
    char *y = (char *)step->out[0]->data + (size_t)c.offset[1] * s->out_size;
    const float scale = scales[channel * s->scale_step];
    const int32_t zero = zero_at(zeros, channel * s->zero_step);
    if (s->bytes && step->in[0]->dtype == EDGERT_F32)
      s->bytes->quantize((const float *)(const void *)x, scale, zero, (uint8_t *)y, (size_t)n);
    else if (s->bytes)
      s->bytes->dequantize((const uint8_t *)x, scale, zero, (float *)(void *)y, (size_t)n);
    else if (s->quantize)
      s->quantize((const float *)(const void *)x, scale, zero, y, n);
    else
      s->dequantize(x, zero, scale, (float *)(void *)y, n);
    ert_walk_advance(&s->walk, &c, n);
    at += n;
  }
}

const ert_kernel ert_kernel_quantize_linear = {
    .name = "quantize_linear", .prepare = quantize_prepare, .run = run, .views = true};
const ert_kernel ert_kernel_dequantize_linear = {
    .name = "dequantize_linear", .prepare = dequantize_prepare, .run = run, .views = true};
