/* The table of one instruction set: every family's template of bytes, with the vectors of ERT_VECTOR_BYTES. */
#include "kernels/simd/i8-vec.h"
#include "kernels/simd/i8.h"

#include "kernels/simd/i8-finish.h"

/* Of Q neighbouring blocks together. */
ERT_INLINE ert_i8_range i8_range_of(const ert_i8_dense *d, size_t block, int Q) {
  if (!d->ranges) return (ert_i8_range){.end = d->n_spans};
  ert_i8_range used = d->ranges[block];
  used.end = d->ranges[block + (size_t)Q - 1].end;
  return used;
}

/* Inputs of a pixel that a range covers. */
ERT_INLINE ptrdiff_t i8_inputs_of(const ert_i8_dense *d, ert_i8_range used) {
  ptrdiff_t inputs = 0; /* fewer than w_block / 4 if weights are a view */
  for (const ert_span *span = d->spans + used.first, *end = d->spans + used.end; span < end; span++)
    inputs += (ptrdiff_t)span->count;
  return inputs;
}

#if defined(__x86_64__) && !ERT_I8_DOT
#include "kernels/simd/i8-wide.h"
#define I8_WIDEN i8_widen
#else
#define I8_WIDEN NULL
#endif
#include "kernels/simd/i8-binary.h"
#include "kernels/simd/i8-dense.h"
#include "kernels/simd/i8-depthwise.h"
#include "kernels/simd/i8-lookup.h"
#include "kernels/simd/i8-planes.h"
#include "kernels/simd/i8-quantize.h"

extern const ert_i8 ERT_I8;
const ert_i8 ERT_I8 = {
    .dense = i8_dense,
    .widen = I8_WIDEN,
    .depthwise = i8_depthwise,
    .quantize = i8_quantize,
    .dequantize = i8_dequantize,
    .range = i8_range,
    .binary = i8_binary,
    .split = i8_split,
    .finish_planes = i8_finish_planes,
    .unrolls = ERT_VECTOR_BYTES == 64,
    .lookup = i8_lookup,
};
