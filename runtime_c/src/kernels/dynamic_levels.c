/* dynamic_levels: the scale and zero point of bytes that stand for floats of any range. */
#include "kernels/dtypes.h"
#include "kernels/simd/i8.h"
#include "kernels/tensor.h"

typedef struct dynamic_levels_state {
  const ert_i8 *loops;
  int64_t runs, run; /* of so many floats */
  int64_t blocks;    /* of 16 channels, each a run; 0: all lanes of runs are values */
  int64_t lanes;     /* of the last block */
} dynamic_levels_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 2, 2));
  const ert_tensor *x = p->step->in[0], *scale = p->step->out[0], *zero = p->step->out[1];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  if (x->layout != ERT_LAYOUT_BLOCK16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_dtype(p, scale, EDGERT_F32));
  ERT_TRY(ert_expect_shape(p, scale, 0, NULL));
  ERT_TRY(ert_expect_dtype(p, zero, EDGERT_U8));
  ERT_TRY(ert_expect_shape(p, zero, 0, NULL));
  dynamic_levels_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->loops = ert_i8_of(p->simd);
  s->runs = 1, s->run = x->elements;
  const int64_t channels = x->rank > 1 ? x->shape[1] : x->rank > 0 ? x->shape[0] : 1;
  if (x->layout == ERT_LAYOUT_BLOCK16 && x->elements > 0) {
    s->blocks = (channels + 15) / 16;
    s->lanes = channels - (s->blocks - 1) * 16;
    s->runs = x->rank > 1 ? x->shape[0] * s->blocks : s->blocks;
    s->run = x->rank > 1 ? ert_extent(x, 2, x->rank) * 16 : 16;
  }
  p->step->tasks = 1;
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin == end) return;
  const dynamic_levels_state *s = step->state;
  float range[2] = {0};
  for (int64_t r = 0; r < s->runs; r++) {
    const float *x = (const float *)step->in[0]->data + r * s->run;
    const bool some = s->blocks > 0 && s->lanes < 16 && r % s->blocks == s->blocks - 1;
    if (!some) s->loops->range(x, (size_t)s->run, range);
    for (int64_t i = 0; some && i < s->run; i += 16) s->loops->range(x + i, (size_t)s->lanes, range);
  }
  const float scale = range[0] == range[1] ? 1.0f : (range[1] - range[0]) / 255.0f, zero = -range[0] / scale;
  *(float *)step->out[0]->data = scale;
  *(uint8_t *)step->out[1]->data = zero < 255.0f    ? (uint8_t)((zero + 12582912.0f) - 12582912.0f)
                                   : zero >= 255.0f ? 255
                                                    : 0;
}

extern const ert_kernel ert_kernel_dynamic_levels;
const ert_kernel ert_kernel_dynamic_levels = {.name = "dynamic_levels", .prepare = prepare, .run = run};
