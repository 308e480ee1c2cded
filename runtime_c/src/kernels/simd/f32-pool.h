/* Pooling windows: pixels of 16 channels, and sliding along a planar row. */
#include "kernels/simd/families.h"

ERT_INLINE void pool_blocks_of(bool average, const ert_taps *t, const float *x, ptrdiff_t step, float divisor, float *y,
                               size_t n) {
  for (size_t o = 0; o < n; o++, x += step, y += 16) {
    vf acc[V16];
    for (size_t j = 0; j < V16; j++) acc[j] = vsplat(average ? 0.0f : -INFINITY);
    for (size_t d = 0; d < t->count[0]; d++)
      for (size_t h = 0; h < t->count[1]; h++) {
        const float *at = x + (ptrdiff_t)d * t->stride[0] + (ptrdiff_t)h * t->stride[1];
        for (size_t w = 0; w < t->count[2]; w++, at += t->stride[2])
          for (size_t j = 0; j < V16; j++) {
            vf v = vload(at + j * VL);
            acc[j] = average ? acc[j] + v : vmax_nan(acc[j], v);
          }
      }
    for (size_t j = 0; j < V16; j++) vstore(y + j * VL, average ? acc[j] / divisor : acc[j]);
  }
}

static void f32_pool_blocks(bool average, const ert_taps *t, const float *x, ptrdiff_t step, float divisor, float *y,
                            size_t n) {
  if (average)
    pool_blocks_of(true, t, x, step, divisor, y, n);
  else
    pool_blocks_of(false, t, x, step, divisor, y, n);
}

/* a[0], a[2], ..., b[0], b[2], ... */
ERT_INLINE vf pool_even(vf a, vf b) {
#if defined(__clang__)
#if ERT_VECTOR_BYTES == 64
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif ERT_VECTOR_BYTES == 32
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
#else
  vi even;
  for (int j = 0; j < VL; j++) even[j] = 2 * j;
  return __builtin_shuffle(a, b, even);
#endif
}

ERT_INLINE void pool_slide_of(bool sum, bool pairs, const float *x, size_t taps, ptrdiff_t tap, float *y, size_t n) {
  for (size_t o = 0; o < n; o += VL) {
    vf acc = vsplat(sum ? 0.0f : -INFINITY);
    for (size_t k = 0; k < taps; k++) {
      const float *at = x + (ptrdiff_t)(pairs ? 2 * o : o) + (ptrdiff_t)k * tap;
      vf v = pairs ? pool_even(vload(at), vload(at + VL)) : vload(at);
      acc = sum ? acc + v : vmax_nan(acc, v);
    }
    if (o + VL <= n)
      vstore(y + o, acc);
    else
      vstore_part(y + o, acc, n - o);
  }
}

static void f32_pool_slide(bool sum, const float *x, size_t taps, ptrdiff_t tap, size_t step, float *y, size_t n) {
  if (step == 1 && sum) {
    pool_slide_of(true, false, x, taps, tap, y, n);
  } else if (step == 1) {
    pool_slide_of(false, false, x, taps, tap, y, n);
  } else if (step == 2 && sum) {
    pool_slide_of(true, true, x, taps, tap, y, n);
  } else if (step == 2) {
    pool_slide_of(false, true, x, taps, tap, y, n);
  } else {
    for (size_t o = 0; o < n; o++) {
      float acc = sum ? 0.0f : -INFINITY;
      const float *at = x + o * step;
      for (size_t k = 0; k < taps; k++, at += tap) acc = sum ? acc + *at : fold_one(ERT_FOLD_MAX, acc, *at);
      y[o] = acc;
    }
  }
}
