/* Functions of float vectors that need double precision on the way: powers, and sines of large angles.
 *
 * Included after vec-math.h. Exact to two units in the last place, powers to one, over all floats; infinities, NaN,
 * denormals and signs of zeros are handled as by libm. Polynomials are minimax fits over an interval that is stated. */
#ifndef ERT_KERNELS_SIMD_VEC_DOUBLE_H
#define ERT_KERNELS_SIMD_VEC_DOUBLE_H

/* Half as many doubles as a vector has floats. */
typedef double vd __attribute__((vector_size(ERT_VECTOR_BYTES)));

/* vlow, vhigh: the halves of a vector as doubles; vnarrow: both as floats again. vhold: x between -limit and limit, NaN
 * if it is. vany: whether any lane of a mask is set. */

#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
ERT_INLINE vd vlow(vf x) { return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
ERT_INLINE vd vhigh(vf x) { return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
ERT_INLINE vf vnarrow(vd low, vd high) {
  const __m256 a = _mm512_cvtpd_ps((__m512d)low), b = _mm512_cvtpd_ps((__m512d)high);
  return (vf)_mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}
ERT_INLINE vd vhold(vd x, double limit) {
  return (vd)_mm512_max_pd(_mm512_set1_pd(-limit), _mm512_min_pd(_mm512_set1_pd(limit), (__m512d)x));
}
ERT_INLINE bool vany(vi mask) { return _mm512_movepi32_mask((__m512i)mask) != 0; }
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
ERT_INLINE vd vlow(vf x) { return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
ERT_INLINE vd vhigh(vf x) { return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
ERT_INLINE vf vnarrow(vd low, vd high) {
  return (vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}
ERT_INLINE vd vhold(vd x, double limit) {
  return (vd)_mm256_max_pd(_mm256_set1_pd(-limit), _mm256_min_pd(_mm256_set1_pd(limit), (__m256d)x));
}
ERT_INLINE bool vany(vi mask) { return _mm256_movemask_ps((__m256)mask) != 0; }
#elif defined(__x86_64__)
ERT_INLINE vd vlow(vf x) { return (vd)_mm_cvtps_pd((__m128)x); }
ERT_INLINE vd vhigh(vf x) { return (vd)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x)); }
ERT_INLINE vf vnarrow(vd low, vd high) {
  return (vf)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
}
ERT_INLINE vd vhold(vd x, double limit) {
  return (vd)_mm_max_pd(_mm_set1_pd(-limit), _mm_min_pd(_mm_set1_pd(limit), (__m128d)x));
}
ERT_INLINE bool vany(vi mask) { return _mm_movemask_ps((__m128)mask) != 0; }
#else
ERT_INLINE vd vlow(vf x) { return (vd)vcvt_f64_f32(vget_low_f32((float32x4_t)x)); }
ERT_INLINE vd vhigh(vf x) { return (vd)vcvt_high_f64_f32((float32x4_t)x); }
ERT_INLINE vf vnarrow(vd low, vd high) {
  return (vf)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)low), (float64x2_t)high);
}
ERT_INLINE vd vhold(vd x, double limit) {
  return (vd)vmaxq_f64(vdupq_n_f64(-limit), vminq_f64(vdupq_n_f64(limit), (float64x2_t)x));
}
ERT_INLINE bool vany(vi mask) { return vmaxvq_u32((uint32x4_t)mask) != 0; }
#endif

/* Rounds as ERT_ROUNDER does. */
#define ERT_ROUNDER_DOUBLE 6755399441055744.0

/* b log2(2^k (1 + f)), held between -160 and 160, for 1 + f from sqrt(1/2) to sqrt(2): its nearest integer, and 2 to
 * the power of what is left. */
ERT_INLINE vd vpow_split(vd b, vd k, vd f, vd *whole) {
  vd w = f / (f + 2.0), s = w * w;
  vd p = s * 3.407370473286e-1 + 4.116723614323e-1; /* log2((1 + w) / (1 - w)) / w on |w| < 0.172, in s */
  p = p * s + 5.770835905983e-1;
  p = p * s + 9.617966733143e-1;
  p = p * s + 2.885390081790e+0;
  vd t = vhold(b * (k + w * p), 160.0);
  *whole = (t + ERT_ROUNDER_DOUBLE) - ERT_ROUNDER_DOUBLE;
  vd r = t - *whole;
  vd y = r * 1.534581193781e-4 + 1.339993122010e-3; /* 2^r on |r| < 0.5 */
  y = y * r + 9.618488957383e-3;
  y = y * r + 5.550328776964e-2;
  y = y * r + 2.402264689063e-1;
  y = y * r + 6.931472057373e-1;
  return y * r + 1.0;
}

/* a^b for 0 < a < infinity; b may be anything, but infinite only where a is not 1. */
ERT_INLINE vf vpow_positive(vf a, vf b) {
  vf k, f = vlog_split(a, &k);
  vd whole[2], low = vpow_split(vlow(b), vlow(k), vlow(f), &whole[0]);
  vd high = vpow_split(vhigh(b), vhigh(k), vhigh(f), &whole[1]);
  return vscale(vnarrow(low, high), vnarrow(whole[0], whole[1]));
}

ERT_INLINE vf vpow(vf a, vf b) {
  const vf one = vsplat(1.0f), infinity = vsplat(INFINITY), size = vabs(a);
  vf y = vpow_positive(size, b);
  vi limit = (size == vzero()) | (size == infinity), grows = (b < vzero()) ^ (size == infinity);
  y = vselect(limit, (vf)((vi)infinity & grows), y);
  vi whole = vround(b) == b, odd = whole & (vround(b * 0.5f) != b * 0.5f), negative = (vi)a < 0;
  y = vselect(negative & odd, -y, y);
  y = vselect((negative & ~whole & ~limit) | (a != a) | (b != b), vsplat(NAN), y);
  return vselect((b == vzero()) | (a == one) | ((size == one) & (vabs(b) == infinity)), one, y);
}

/* What x is past the nearest multiple of pi / 2, and that multiple, for |x| < 2^20: pi / 2 is in two parts, the first
 * with so few bits that the product is exact. */
ERT_INLINE vd vquarter(vd x, vd *quarters) {
  *quarters = (x * 0.63661977236758134 + ERT_ROUNDER_DOUBLE) - ERT_ROUNDER_DOUBLE;
  return (x - *quarters * 1.57079632673412561) - *quarters * 6.07710050650619225e-11;
}

/* The sine of x plus so many right angles; `beyond`, which computes the same, where |x| is 2^20 or more. */
ERT_INLINE vf vsin_from(vf x, int right_angles, float (*beyond)(float)) {
  if (vany(vabs(x) >= vsplat(0x1p20f))) {
    float lanes[VL];
    vstore(lanes, x);
    for (size_t i = 0; i < VL; i++) lanes[i] = beyond(lanes[i]);
    return vload(lanes);
  }
  vd quarters[2], low = vquarter(vlow(x), &quarters[0]), high = vquarter(vhigh(x), &quarters[1]);
  vf r = vnarrow(low, high), s = r * r;
  vu turn = (vu)(vnarrow(quarters[0], quarters[1]) + ERT_ROUNDER) + (uint32_t)(right_angles - ERT_ROUNDER_BITS);
  vf p = s * 2.718216925e-6f - 1.983932502e-4f; /* (sin(r) / r - 1) / s on |r| < 0.79 */
  p = p * s + 8.333329356e-3f;
  p = p * s - 1.666666664e-1f;
  vf q = s * 2.443753279e-5f - 1.388735979e-3f; /* (cos(r) - 1 + s / 2) / s^2 on |r| < 0.79 */
  q = q * s + 4.166664672e-2f;
  vf sine = r + r * s * p, cosine = (1.0f - s * 0.5f) + s * s * q;
  vf y = vselect((turn & 1u) != 0u, cosine, sine);
  return (vf)((vu)y ^ (turn & 2u) << 30);
}

ERT_INLINE vf vsin(vf x) { return vselect(x == vzero(), x, vsin_from(x, 0, sinf)); }

ERT_INLINE vf vcos(vf x) { return vsin_from(x, 1, cosf); }

#endif
