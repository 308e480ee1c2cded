/* Proving that no step of a slice reads inputs that there are not. */
#include "kernels/sliced.h"

static edgert_status expect_constants(const ert_prepare *p, const ert_tensor *const *operands) {
  static const edgert_dtype dtypes[] = {EDGERT_F32, EDGERT_U8, EDGERT_U16, EDGERT_I32};
  for (int i = 0; i < 4; i++) {
    ERT_TRY(ert_expect_dtype(p, operands[i], dtypes[i]));
    ERT_TRY(ert_expect_layout(p, operands[i], ERT_LAYOUT_PLANAR));
    if (!operands[i]->constant || (i < 3 && !operands[i]->compact))
      return ert_reject(p, "slices of a matrix", "constants, their steps no part of one", "others");
  }
  return EDGERT_OK;
}

edgert_status ert_slices_read(const ert_prepare *p, const ert_tensor *const *operands, int64_t count, ert_slices *out) {
  ERT_TRY(expect_constants(p, operands));
  const int64_t steps = operands[2]->rank > 0 ? operands[2]->shape[0] : 0;
  ERT_TRY(ert_expect_shape(p, operands[0], 1, (const int64_t[]){steps * ERT_SLICE}));
  ERT_TRY(ert_expect_shape(p, operands[1], 1, (const int64_t[]){steps * 8}));
  ERT_TRY(ert_expect_shape(p, operands[2], 1, &steps));
  ERT_TRY(ert_expect_shape(p, operands[3], 2, (const int64_t[]){count, 2}));
  *out = (ert_slices){.simd = p->simd,
                      .values = operands[0]->data,
                      .places = operands[1]->data,
                      .windows = operands[2]->data,
                      .ends = operands[3]->data,
                      .steps = steps,
                      .between = ert_stride(operands[3], 0)};
  return EDGERT_OK;
}

edgert_status ert_slices_prove(const ert_prepare *p, const ert_slices *s, int64_t first, int64_t count, int64_t depth) {
  int64_t ended = 0;
  for (int64_t slice = first; slice < first + count; slice++) {
    const int32_t *ends = s->ends + slice * s->between;
    if (ends[0] < ended || ends[1] < ends[0] || ends[1] > s->steps)
      return ert_reject(p, "steps of a slice", "some of those behind the slice before",
                        "%d to %d, of %lld from %lld on", ends[0], ends[1], (long long)s->steps, (long long)ended);
    for (int64_t i = ends[0]; i < ends[1]; i++)
      if (s->windows[i] + ERT_SLICE > depth)
        return ert_reject(p, "window of a step", "16 inputs of the matrix", "those from %u on, of %lld", s->windows[i],
                          (long long)depth);
    ended = ends[1];
  }
  return EDGERT_OK;
}
