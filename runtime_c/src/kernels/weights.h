/* Packed weights: how they are stored, and proving it. */
#ifndef ERT_KERNELS_WEIGHTS_H
#define ERT_KERNELS_WEIGHTS_H

#include <inttypes.h>

#include "base/dtype.h"
#include "kernels/simd/simd.h"

static inline ert_weights ert_weights_of(const ert_tensor *w) {
  return w->dtype == EDGERT_F16 ? ERT_WEIGHTS_F16 : w->dtype == EDGERT_BF16 ? ERT_WEIGHTS_BF16 : ERT_WEIGHTS_F32;
}

/* Proves that w is WEIGHT16 in one of the types that ert_weights has; of bf16, that input channels come in pairs. */
static inline edgert_status ert_expect_weights(const ert_prepare *p, const ert_tensor *w) {
  ERT_TRY(ert_expect_layout(p, w, ERT_LAYOUT_WEIGHT16));
  if (w->dtype == EDGERT_F16) return EDGERT_OK;
  if (w->dtype != EDGERT_BF16) return ert_expect_dtype(p, w, EDGERT_F32);
  if (w->shape[2] % 2 == 0 && w->whole[2] % 2 == 0) return EDGERT_OK;
  return ert_reject(p, "input channels of weights in bf16", "an even number", "%" PRId64, w->shape[2]);
}

#endif
