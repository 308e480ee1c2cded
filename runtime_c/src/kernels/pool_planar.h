/* Pooling planar rows of float32 by vectors: maxima and averages. */
#ifndef ERT_KERNELS_POOL_PLANAR_H
#define ERT_KERNELS_POOL_PLANAR_H

#include "kernels/pool_window.h"
#include "kernels/simd/simd.h"

/* Units are bands of rows of outputs (over depth and height) of one channel: [image][band][channel]. */
typedef struct ert_pool_plan {
  int64_t columns;     /* outputs of a row made at a time */
  int64_t bands, rows; /* of a channel, and of the largest band */
  int64_t pitch;       /* floats of a line of scratch */
  int64_t units;
  size_t scratch_bytes;
} ert_pool_plan;

/* How many floats of divisors `ert_pool_planar_plan` fills for rows of `out` outputs. */
static inline int64_t ert_pool_divisors(int64_t out) { return out + ERT_SLIDE_SLACK; }

/* False if a window is too wide. The answer is the same for parts of the outputs, and so are their bits. */
bool ert_pool_planar_plan(const ert_pool_shape *s, int64_t images, ert_pool_plan *plan, float *divisors);

/* Units [begin, end). */
void ert_pool_planar_run(const ert_pool_shape *s, const ert_pool_plan *plan, const float *divisors,
                         const ert_simd *simd, const float *x, float *y, int64_t begin, int64_t end, void *scratch);

#endif
