/* Sparse matrices in slices of 16 columns (docs/format.md): what proves them, and a slice times a row of inputs. */
#ifndef ERT_KERNELS_SLICED_H
#define ERT_KERNELS_SLICED_H

#include "kernels/simd/simd.h"
#include "kernels/tensor.h"

enum { ERT_SLICE = 16 /* columns of a slice, and inputs of a window */ };

typedef struct ert_slices {
  const ert_simd *simd;
  const float *values;     /* [steps][16] */
  const uint8_t *places;   /* [steps][8] */
  const uint16_t *windows; /* [steps] */
  const int32_t *ends;     /* of each slice: where its steps begin and end */
  int64_t steps;
  int64_t between; /* elements between slices */
} ert_slices;

/* Proves the types and shapes of the operands values, places, windows and ends of `count` slices. */
edgert_status ert_slices_read(const ert_prepare *p, const ert_tensor *const *operands, int64_t count, ert_slices *out);

/* Proves that the slices [first, first + count) read no other than `depth` inputs. */
edgert_status ert_slices_prove(const ert_prepare *p, const ert_slices *s, int64_t first, int64_t count, int64_t depth);

static inline int64_t ert_slice_steps(const void *of, int64_t slice) {
  const ert_slices *s = of;
  const int32_t *ends = s->ends + slice * s->between;
  return ends[1] - ends[0];
}

/* Adds the products of a slice and the inputs x to the sums of its columns. */
static inline void ert_slice_run(const ert_slices *s, int64_t slice, const float *x, float *sums) {
  const int64_t begin = s->ends[slice * s->between];
  const ert_sliced of = {.x = x,
                         .values = s->values + begin * ERT_SLICE,
                         .places = s->places + begin * 8,
                         .windows = s->windows + begin,
                         .steps = (size_t)ert_slice_steps(s, slice),
                         .sums = sums};
  s->simd->sliced(&of);
}

#endif
