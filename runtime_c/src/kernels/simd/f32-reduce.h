/* Folds of float32 rows and columns, and what normalisations do with their results. */
#include <float.h>
#include <math.h>

#include "kernels/simd/simd.h"

ERT_INLINE vf fold_step(int fold, vf acc, vf x) {
  switch (fold) {
    case ERT_FOLD_SUM:
      return acc + x;
    case ERT_FOLD_ABS:
      return acc + vabs(x);
    case ERT_FOLD_SQUARE:
      return acc + x * x;
    case ERT_FOLD_MAX:
      return vmax_nan(acc, x);
    default:
      return vmin_nan(acc, x);
  }
}

ERT_INLINE vf fold_join(int fold, vf a, vf b) {
  return fold == ERT_FOLD_MAX ? vmax_nan(a, b) : fold == ERT_FOLD_MIN ? vmin_nan(a, b) : a + b;
}

/* Returns what `of` gives, which is compiled for each fold by itself. */
#define FOLD_EACH(fold, of, ...)               \
  switch (fold) {                              \
    case ERT_FOLD_SUM:                         \
      return of(ERT_FOLD_SUM, __VA_ARGS__);    \
    case ERT_FOLD_ABS:                         \
      return of(ERT_FOLD_ABS, __VA_ARGS__);    \
    case ERT_FOLD_SQUARE:                      \
      return of(ERT_FOLD_SQUARE, __VA_ARGS__); \
    case ERT_FOLD_MAX:                         \
      return of(ERT_FOLD_MAX, __VA_ARGS__);    \
    default:                                   \
      return of(ERT_FOLD_MIN, __VA_ARGS__);    \
  }

/* All lanes into one. */
ERT_INLINE float fold_lanes(int fold, vf v) {
#if ERT_VECTOR_BYTES == 64
  v = fold_join(fold, v, VSWAP(v, 8));
#endif
#if ERT_VECTOR_BYTES >= 32
  v = fold_join(fold, v, VSWAP(v, 4));
#endif
  v = fold_join(fold, v, VSWAP(v, 2));
  v = fold_join(fold, v, VSWAP(v, 1));
  return v[0];
}

/* The larger or the smaller of two numbers; NaN if either is. */
ERT_INLINE float fold_one(int fold, float a, float b) {
  return a != a || (fold == ERT_FOLD_MAX ? a > b : a < b) ? a : b;
}

/* A row in one vector, to be joined across its lanes. */
ERT_INLINE vf fold_row_lanes(int fold, const float *x, size_t n) {
  vf first = vsplat(fold == ERT_FOLD_MAX ? -INFINITY : fold == ERT_FOLD_MIN ? INFINITY : 0.0f);
  vf a0 = first, a1 = first, a2 = first, a3 = first;
  size_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL) {
    a0 = fold_step(fold, a0, vload(x + i));
    a1 = fold_step(fold, a1, vload(x + i + VL));
    a2 = fold_step(fold, a2, vload(x + i + 2 * VL));
    a3 = fold_step(fold, a3, vload(x + i + 3 * VL));
  }
  for (; i + VL <= n; i += VL) a0 = fold_step(fold, a0, vload(x + i));
  if (i < n) a1 = fold_step(fold, a1, vfirst(vload_part(x + i, n - i), n - i, first));
  return fold_join(fold, fold_join(fold, a0, a1), fold_join(fold, a2, a3));
}

ERT_INLINE float fold_row_of(int fold, float acc, const float *x, size_t n) {
  const float all = fold_lanes(fold, fold_row_lanes(fold, x, n));
  return fold == ERT_FOLD_MAX || fold == ERT_FOLD_MIN ? fold_one(fold, acc, all) : acc + all;
}

static float f32_fold_row(int fold, float acc, const float *x, size_t n) { FOLD_EACH(fold, fold_row_of, acc, x, n); }

/* Of each run of 2 n lanes of a, then of b, the first n lanes joined with the last n. */
#if defined(__clang__)
#define FOLD_HALVES(fold, a, b, lo, hi) \
  fold_join(fold, __builtin_shufflevector(a, b, FOLD_LIST lo), __builtin_shufflevector(a, b, FOLD_LIST hi))
#else
#define FOLD_HALVES(fold, a, b, lo, hi) \
  fold_join(fold, __builtin_shuffle(a, b, (vi){FOLD_LIST lo}), __builtin_shuffle(a, b, (vi){FOLD_LIST hi}))
#endif
#define FOLD_LIST(...) __VA_ARGS__

/* Four rows across their lanes, in the order of fold_lanes; the results are those of lanes 0, VL / 4, VL / 2, 3 VL / 4. */
ERT_INLINE vf fold_four(int fold, vf a, vf b, vf c, vf d) {
#if ERT_VECTOR_BYTES == 64
#define FOLD_WIDE(a, b)                                                             \
  FOLD_HALVES(fold, a, b, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23), \
              (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
  const vf ab = FOLD_WIDE(a, b), cd = FOLD_WIDE(c, d);
  const vf v = FOLD_HALVES(fold, ab, cd, (0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                           (4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
  const vf two = fold_join(fold, v, VSWAP(v, 2));
  return fold_join(fold, two, VSWAP(two, 1));
#elif ERT_VECTOR_BYTES == 32
#define FOLD_WIDE(a, b) FOLD_HALVES(fold, a, b, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
  const vf ab = FOLD_WIDE(a, b), cd = FOLD_WIDE(c, d);
  const vf v = FOLD_HALVES(fold, ab, cd, (0, 1, 4, 5, 8, 9, 12, 13), (2, 3, 6, 7, 10, 11, 14, 15));
  return fold_join(fold, v, VSWAP(v, 1));
#else
#define FOLD_WIDE(a, b) FOLD_HALVES(fold, a, b, (0, 1, 4, 5), (2, 3, 6, 7))
  const vf ab = FOLD_WIDE(a, b), cd = FOLD_WIDE(c, d);
  return FOLD_HALVES(fold, ab, cd, (0, 2, 4, 6), (1, 3, 5, 7));
#endif
#undef FOLD_WIDE
}
#undef FOLD_HALVES
#undef FOLD_LIST

ERT_INLINE void fold_rows_of(int fold, const float *x, ptrdiff_t stride, size_t n, size_t rows, float *y) {
  const float first = fold == ERT_FOLD_MAX ? -INFINITY : fold == ERT_FOLD_MIN ? INFINITY : 0.0f;
  for (; rows >= 4; rows -= 4, x += 4 * stride, y += 4) {
    const vf four = fold_four(fold, fold_row_lanes(fold, x, n), fold_row_lanes(fold, x + stride, n),
                              fold_row_lanes(fold, x + 2 * stride, n), fold_row_lanes(fold, x + 3 * stride, n));
    for (size_t r = 0; r < 4; r++) y[r] = fold == ERT_FOLD_SUM ? first + four[r * (VL / 4)] : four[r * (VL / 4)];
  }
  for (; rows > 0; rows--, x += stride) *y++ = fold_row_of(fold, first, x, n);
}

static void f32_fold_rows(int fold, const float *x, ptrdiff_t stride, size_t n, size_t rows, float *y) {
  FOLD_EACH(fold, fold_rows_of, x, stride, n, rows, y);
}

/* `count` vectors of columns, the last of which has `part` of them; the rows of a column one after the other. */
ERT_INLINE void fold_vectors(int fold, size_t count, size_t part, const float *x, ptrdiff_t stride, size_t rows,
                             float *acc) {
  vf a[4];
  for (size_t j = 0; j < count; j++) a[j] = part == VL ? vload(acc + j * VL) : vload_part(acc + j * VL, part);
  for (size_t r = 0; r < rows; r++, x += stride)
    for (size_t j = 0; j < count; j++)
      a[j] = fold_step(fold, a[j], part == VL ? vload(x + j * VL) : vload_part(x + j * VL, part));
  for (size_t j = 0; j < count; j++) {
    if (part == VL)
      vstore(acc + j * VL, a[j]);
    else
      vstore_part(acc + j * VL, a[j], part);
  }
}

ERT_INLINE void fold_columns_of(int fold, const float *x, ptrdiff_t stride, size_t rows, float *acc, size_t width) {
  size_t i = 0;
  for (; i + 4 * VL <= width; i += 4 * VL) fold_vectors(fold, 4, VL, x + i, stride, rows, acc + i);
  for (; i + 2 * VL <= width; i += 2 * VL) fold_vectors(fold, 2, VL, x + i, stride, rows, acc + i);
  for (; i + VL <= width; i += VL) fold_vectors(fold, 1, VL, x + i, stride, rows, acc + i);
  if (i < width) fold_vectors(fold, 1, width - i, x + i, stride, rows, acc + i);
}

static void f32_fold_columns(int fold, const float *x, ptrdiff_t stride, size_t rows, float *acc, size_t width) {
  FOLD_EACH(fold, fold_columns_of, x, stride, rows, acc, width);
}

ERT_INLINE void moment_lanes(float shift, const float *x, size_t n, vf *sum, vf *square) {
  const vf by = vsplat(shift);
  vf s0 = vzero(), s1 = vzero(), q0 = vzero(), q1 = vzero();
  size_t i = 0;
  for (; i + 2 * VL <= n; i += 2 * VL) {
    const vf a = vload(x + i) - by, b = vload(x + i + VL) - by;
    s0 += a, s1 += b;
    q0 += a * a, q1 += b * b;
  }
  for (; i < n; i += VL) {
    const size_t part = n - i;
    const vf a = (part >= VL ? vload(x + i) : vfirst(vload_part(x + i, part), part, by)) - by;
    s0 += a, q0 += a * a;
  }
  *sum = s0 + s1, *square = q0 + q1;
}

static void f32_moments(float shift, const float *x, size_t n, float sums[2]) {
  vf sum, square;
  moment_lanes(shift, x, n, &sum, &square);
  sums[0] = fold_lanes(ERT_FOLD_SUM, sum), sums[1] = fold_lanes(ERT_FOLD_SUM, square);
}

ERT_INLINE vf center_vector(const ert_center *c, const float *scale, const float *shift, vf x, size_t part) {
  vf y = ((x - c->mean) - c->rest) * c->factor;
  if (scale) y *= part == VL ? vload(scale) : vload_part(scale, part);
  if (shift) y += part == VL ? vload(shift) : vload_part(shift, part);
  return y;
}

ERT_INLINE void center_of(ert_center c, const float *scale, const float *shift, const float *x, float *y, size_t n) {
  size_t i = 0;
#define AT(parameter) (parameter ? parameter + i : NULL)
  for (; i + VL <= n; i += VL) vstore(y + i, center_vector(&c, AT(scale), AT(shift), vload(x + i), VL));
  if (i == n) return;
  const vf tail = vload_part(x + i, n - i);
  vstore_part(y + i, center_vector(&c, AT(scale), AT(shift), tail, n - i), n - i);
#undef AT
}

static void f32_center(const ert_center *c, const float *scale, const float *shift, const float *x, float *y,
                       size_t n) {
  if (scale && shift)
    center_of(*c, scale, shift, x, y, n);
  else if (scale)
    center_of(*c, scale, NULL, x, y, n);
  else
    center_of(*c, NULL, shift, x, y, n);
}

/* `count` rows, at most 4: what they need across their lanes is found for all of them at once. */
ERT_INLINE void normalize_rows_of(size_t count, const ert_normal *p, const float *x, ptrdiff_t x_row, float *y,
                                  ptrdiff_t y_row) {
  float mean[4] = {0};
  vf sum[4], square[4];
  if (!p->rms) {
    for (size_t r = 0; r < 4; r++)
      sum[r] = r < count ? fold_row_lanes(ERT_FOLD_SUM, x + (ptrdiff_t)r * x_row, p->n) : vzero();
    const vf four = fold_four(ERT_FOLD_SUM, sum[0], sum[1], sum[2], sum[3]);
    for (size_t r = 0; r < count; r++) mean[r] = (float)((double)four[r * (VL / 4)] / (double)p->n);
  }
  for (size_t r = 0; r < 4; r++) {
    sum[r] = square[r] = vzero();
    if (r < count) moment_lanes(mean[r], x + (ptrdiff_t)r * x_row, p->n, &sum[r], &square[r]);
  }
  const vf sums = fold_four(ERT_FOLD_SUM, sum[0], sum[1], sum[2], sum[3]);
  const vf squares = fold_four(ERT_FOLD_SUM, square[0], square[1], square[2], square[3]);
  for (size_t r = 0; r < count; r++, x += x_row, y += y_row) {
    const size_t lane = r * (VL / 4);
    const ert_center c = ert_center_of(p, mean[r], (double)sums[lane], (double)squares[lane]);
    f32_center(&c, p->scale, p->shift, x, y, p->n);
  }
}

static void f32_normalize_rows(const ert_normal *p, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row,
                               size_t rows) {
  enum { CACHED = 1024 }; /* floats of a row of which four stay in the first cache */
  for (; rows >= 4 && p->n <= CACHED; rows -= 4, x += 4 * x_row, y += 4 * y_row)
    normalize_rows_of(4, p, x, x_row, y, y_row);
  for (; rows > 0; rows--, x += x_row, y += y_row) normalize_rows_of(1, p, x, x_row, y, y_row);
}

/* An estimate of 1 / sqrt(v), for v > 0 that is no infinity. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
enum { LRN_STEPS = 1 }; /* 14 bits */
ERT_INLINE vf lrn_estimate(vf v) { return (vf)_mm512_rsqrt14_ps((__m512)v); }
#elif defined(__aarch64__)
enum { LRN_STEPS = 2 }; /* 8 bits */
ERT_INLINE vf lrn_estimate(vf v) { return (vf)vrsqrteq_f32((float32x4_t)v); }
#else
enum { LRN_STEPS = 0 };
ERT_INLINE vf lrn_estimate(vf v) { return 1.0f / vsqrt(v); }
#endif

/* v^-3/4, to four units in the last place, for v > 0 that is no infinity: an estimate y, and as often as it needs to be
 * exact y (1 - d)^-1/4 with d = 1 - v^3 y^4, by the first terms of its series. */
ERT_INLINE vf lrn_three_quarters(vf v) {
  if (LRN_STEPS == 0) {
    const vf r = lrn_estimate(vsqrt(v));
    return r * r * r;
  }
  const vf root = lrn_estimate(v);
  vf y = root * (root * lrn_estimate(root));
  for (int i = 0; i < LRN_STEPS; i++) {
    const vf u = v * y, d = 1.0f - u * u * (u * y);
    y += y * d * (d * 0.15625f + 0.25f);
  }
  return y;
}

/* v^-beta, for the v > 0 that sums of squares give. */
ERT_INLINE vf lrn_power(vf v, bool usual, float beta) {
  return usual ? lrn_three_quarters(vmin(vsplat(FLT_MAX), v)) : vexp(vlog(v) * -beta);
}

ERT_INLINE vf lrn_vector(const ert_lrn *l, bool usual, size_t count, size_t i, size_t part) {
  const float *from = l->neighbours + i;
  vf sum = vzero();
  for (size_t k = 0; k < count; k++, from += l->stride) {
    const vf v = part == VL ? vload(from) : vload_part(from, part);
    sum += v * v;
  }
  const vf x = part == VL ? vload(l->x + i) : vload_part(l->x + i, part);
  return x * lrn_power(sum * l->alpha + l->bias, usual, l->beta);
}

ERT_INLINE void lrn_row(const ert_lrn *row, bool usual, size_t count) {
  const ert_lrn l = *row; /* that stores do not change */
  size_t i = 0;
  for (; i + VL <= l.n; i += VL) vstore(l.y + i, lrn_vector(&l, usual, count, i, VL));
  if (i < l.n) vstore_part(l.y + i, lrn_vector(&l, usual, count, i, l.n - i), l.n - i);
}

static void f32_lrn(const ert_lrn *l) {
  if (l->beta == 0.75f && l->count == 5)
    lrn_row(l, true, 5);
  else if (l->beta == 0.75f)
    lrn_row(l, true, l->count);
  else
    lrn_row(l, false, l->count);
}
