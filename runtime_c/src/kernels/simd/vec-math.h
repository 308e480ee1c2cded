/* Exponentials, logarithms and roundings of vectors, exact to a few units in the last place over all floats.
 *
 * Included after vec.h. Infinities, NaN and denormals are handled as by libm. Polynomials are minimax fits over an
 * interval that is stated; their errors are below 1e-8. */
#ifndef ERT_KERNELS_SIMD_VEC_MATH_H
#define ERT_KERNELS_SIMD_VEC_MATH_H

#include <math.h>

typedef uint32_t vu __attribute__((vector_size(ERT_VECTOR_BYTES)));

ERT_INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }
ERT_INLINE vf vcopysign(vf magnitude, vf sign) {
  return (vf)(((vi)magnitude & 0x7fffffff) | ((vi)sign & (-0x7fffffff - 1)));
}

/* The larger and the smaller, a of equals; NaN if either is. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
ERT_INLINE vf vmax_nan(vf a, vf b) {
  return (vf)_mm512_mask_max_ps((__m512)b, _mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_ORD_Q), (__m512)b, (__m512)a);
}
ERT_INLINE vf vmin_nan(vf a, vf b) {
  return (vf)_mm512_mask_min_ps((__m512)b, _mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_ORD_Q), (__m512)b, (__m512)a);
}
#elif defined(__aarch64__)
ERT_INLINE vf vmax_nan(vf a, vf b) { return vmax(a, b); }
ERT_INLINE vf vmin_nan(vf a, vf b) { return vmin(a, b); }
#else
ERT_INLINE vf vmax_nan(vf a, vf b) { return vselect(b == b, vmax(b, a), b); }
ERT_INLINE vf vmin_nan(vf a, vf b) { return vselect(b == b, vmin(b, a), b); }
#endif

/* The first n lanes of v, and `rest` in the others. */
ERT_INLINE vf vfirst(vf v, size_t n, vf rest) {
  static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return vselect(vload_int(lanes) < (vi){0} + (int32_t)n, v, rest);
}

/* Lane i gets lane i ^ distance of v; distance is a constant power of two. */
#define ERT_LANES4(first, d) (first) ^ (d), ((first) + 1) ^ (d), ((first) + 2) ^ (d), ((first) + 3) ^ (d)
#if ERT_VECTOR_BYTES == 64
#define ERT_LANES(d) ERT_LANES4(0, d), ERT_LANES4(4, d), ERT_LANES4(8, d), ERT_LANES4(12, d)
#elif ERT_VECTOR_BYTES == 32
#define ERT_LANES(d) ERT_LANES4(0, d), ERT_LANES4(4, d)
#else
#define ERT_LANES(d) ERT_LANES4(0, d)
#endif
#if defined(__clang__)
#define VSWAP(v, distance) __builtin_shufflevector(v, v, ERT_LANES(distance))
#else
#define VSWAP(v, distance) __builtin_shuffle(v, (vi){ERT_LANES(distance)})
#endif

/* 2^n for -126 <= n <= 127. */
ERT_INLINE vf vpow2(vi n) { return (vf)((vu)(n + 127) << 23); }

/* Adding and taking away 1.5 * 2^23 rounds to an integer (half to even), whose bits are the low bits of the sum. */
#define ERT_ROUNDER      12582912.0f
#define ERT_ROUNDER_BITS 0x4b400000

/* k and p such that e^x = 2^k (1 + p), k an integer and |p| < 0.42, for |x| < 200. */
ERT_INLINE vf vexp_split(vf x, vf *k) {
  *k = (x * 1.44269504f + ERT_ROUNDER) - ERT_ROUNDER;
  vf r = x - *k * 0.693359375f; /* ln 2 in two parts, the first with so few bits that the product is exact */
  r = r + *k * 2.12194440e-4f;
  vf q = r * 1.381337293e-3f + 8.369411342e-3f; /* (e^r - 1 - r) / r^2 on |r| < 0.35 */
  q = q * r + 4.166845232e-2f;
  q = q * r + 1.666651517e-1f;
  q = q * r + 4.999999404e-1f;
  return r + r * r * q;
}

/* x 2^k for an integer |k| < 200, in two steps lest 2^k be no float. */
ERT_INLINE vf vscale(vf x, vf k) {
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
  return (vf)_mm512_scalef_ps((__m512)x, (__m512)k);
#else
  vi n = (vi)((vu)(k + ERT_ROUNDER) - ERT_ROUNDER_BITS), half = n >> 1;
  return x * vpow2(half) * vpow2(n - half);
#endif
}

/* e^x for |x| < 130. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
ERT_INLINE vf vexp_near(vf x) { /* rounded to sixteenths the exponent of 2 has its four lowest bits behind the point */
  const vf powers = {
      1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
      1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f,
  };
  const float rounder = ERT_ROUNDER / 16;
  vf at = x * 1.44269504f + rounder, k = at - rounder;
  vf r = x - k * 0.693359375f;
  r = r + k * 2.12194440e-4f;
  vf p = r + r * r * (r * 1.666666667e-1f + 0.5f); /* e^r - 1 on |r| < 0.022 */
  vf power = (vf)_mm512_permutexvar_ps((__m512i)at, (__m512)powers);
  return vscale(power + power * p, k); /* by the whole part of k */
}
#else
ERT_INLINE vf vexp_near(vf x) {
  vf k, p = vexp_split(x, &k);
  return vscale(p + 1.0f, k);
}
#endif

ERT_INLINE vf vexp(vf x) { return vexp_near(vmax(vsplat(-104.0f), vmin(vsplat(89.0f), x))); }

/* (e^x - 1) / 2 for |x| < 90. */
ERT_INLINE vf vexpm1_half(vf x) {
  vf k, p = vexp_split(x, &k);
  vf half = vpow2((vi)((vu)(k + (ERT_ROUNDER - 1.0f)) - ERT_ROUNDER_BITS));
  return half * p + (half - 0.5f);
}

ERT_INLINE vf vexpm1(vf x) { return vexpm1_half(vmax(vsplat(-20.0f), vmin(vsplat(89.0f), x))) * 2.0f; }

/* k and f such that x = 2^k (1 + f), k an integer and 1 + f from sqrt(1/2) to sqrt(2), for 0 < x < infinity. */
ERT_INLINE vf vlog_split(vf x, vf *k) {
  vi tiny = x < vsplat(1.17549435e-38f);
  vu bits = (vu)vselect(tiny, x * 8388608.0f, x);
  vi e = (vi)(bits - 0x3f3504f3u) >> 23;
  vf f = (vf)(bits - ((vu)e << 23)) - 1.0f;
  e -= tiny & 23;
  *k = (vf)((vu)e + ERT_ROUNDER_BITS) - ERT_ROUNDER;
  return f;
}

ERT_INLINE vf vlog(vf x) {
  vf k, f = vlog_split(x, &k);
  vf p = f * 6.916122884e-2f - 1.178895310e-1f; /* (log(1 + f) - f + f^2 / 2) / f^3 on [-0.293, 0.415] */
  p = p * f + 1.187213361e-1f;
  p = p * f - 1.238445565e-1f;
  p = p * f + 1.421880126e-1f;
  p = p * f - 1.666924804e-1f;
  p = p * f + 2.000221759e-1f;
  p = p * f - 2.499998659e-1f;
  p = p * f + 3.333331048e-1f;
  vf square = f * f;
  vf low = p * square * f - k * 2.12194440e-4f;
  vf y = k * 0.693359375f + (f + (low - square * 0.5f));
  y = vselect(x == vsplat(INFINITY), x, y);
  y = vselect(x == vzero(), vsplat(-INFINITY), y);
  return vselect(x >= vzero(), y, vsplat(NAN));
}

/* log(1 + e) for 0 <= e <= 1. */
ERT_INLINE vf vlog1p_unit(vf e) {
  vf u = e + 1.0f;
  return vlog(u) - ((u - 1.0f) - e) / u;
}

ERT_INLINE vf vtanh(vf x) {
  vf m = vexpm1_half(vmin(vsplat(20.0f), vabs(x) * 2.0f));
  return vcopysign(m / (m + 1.0f), x);
}

ERT_INLINE vf vsigmoid(vf x) { return 1.0f / (vexp(-x) + 1.0f); }

ERT_INLINE vf verf(vf x) {
  vf s = x * x;
  vf p = s * 7.853865100e-5f - 8.010194870e-4f; /* erf(x) / x - 1 on |x| < 1, in s */
  p = p * s + 5.188327748e-3f;
  p = p * s - 2.685381286e-2f;
  p = p * s + 1.128358543e-1f;
  p = p * s - 3.761262596e-1f;
  p = p * s + 1.283791661e-1f;
  vf t = vmin(vsplat(4.0f), vabs(x));            /* erf(4) rounds to 1 */
  vf q = t * -1.866712591e-5f + 4.037607578e-4f; /* log(1 - erf(t)) on [0.95, 4] */
  q = q * t - 4.010725301e-3f;
  q = q * t + 2.466986701e-2f;
  q = q * t - 1.075473875e-1f;
  q = q * t - 6.340426207e-1f;
  q = q * t - 1.129157782e+0f;
  q = q * t + 9.809563198e-5f;
  vf large = vcopysign(1.0f - vexp_near(q), x);
  return vselect(vabs(x) < vsplat(1.0f), x + x * p, large);
}

/* To the nearest integer, halves to even; the sign of zero is kept. */
ERT_INLINE vf vround(vf x) {
  vf big = vcopysign(vsplat(8388608.0f), x);
  vf rounded = vcopysign((x + big) - big, x);
  return vselect(vabs(x) < vsplat(8388608.0f), rounded, x);
}

ERT_INLINE vf vfloor(vf x) {
  vf r = vround(x);
  return vcopysign(r - (vf)((vi)vsplat(1.0f) & (r > x)), x);
}

ERT_INLINE vf vceil(vf x) {
  vf r = vround(x);
  return vcopysign(r + (vf)((vi)vsplat(1.0f) & (r < x)), x);
}

#endif
