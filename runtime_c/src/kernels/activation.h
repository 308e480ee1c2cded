/* Activations that are no more than limits, which inner loops apply for nothing before they store. */
#ifndef ERT_KERNELS_ACTIVATION_H
#define ERT_KERNELS_ACTIVATION_H

#include <math.h>

#include "kernels/unary_kinds.h"

/* How a kernel of sums finishes its outputs: clipped in registers, or by the unary function afterwards. */
typedef struct ert_finish {
  ert_activation activation;
  bool function; /* the activation is applied to what was stored */
  float lo, hi;  /* else outputs are clipped to these limits, which may be infinite */
} ert_finish;

static inline ert_finish ert_finish_of(ert_activation a) {
  ert_finish f = {.activation = a, .lo = -INFINITY, .hi = INFINITY};
  if (a.kind == ERT_UNARY_RELU) f.lo = 0;
  if (a.kind == ERT_UNARY_CLIP) f.lo = a.alpha, f.hi = a.beta;
  f.function = a.kind != ERT_UNARY_RELU && a.kind != ERT_UNARY_CLIP && a.kind != ERT_UNARY_IDENTITY;
  return f;
}

#endif
