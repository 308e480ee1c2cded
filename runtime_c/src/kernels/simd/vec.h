/* Vectors of ERT_VECTOR_BYTES over the GCC vector extensions, and the few operations those lack.
 *
 * Included once by each simd-<isa>.c. Arithmetic is written with plain operators on `vf` (floats) and `vi` (int32); a
 * multiplication feeding an addition becomes a fused multiply-add where the instruction set has one. Comparisons of two `vf`
 * give a `vi` of 0 / -1 lanes. Loads and stores need the alignment of the element only. */
#ifndef ERT_KERNELS_SIMD_VEC_H
#define ERT_KERNELS_SIMD_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define ERT_INLINE static inline __attribute__((always_inline, unused))

enum {
  VL = ERT_VECTOR_BYTES / 4, /* lanes of a vector */
  V16 = 16 / VL,             /* vectors of a block of 16 channels */
};

typedef float vf __attribute__((vector_size(ERT_VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(ERT_VECTOR_BYTES)));
typedef float vf_at __attribute__((vector_size(ERT_VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t vi_at __attribute__((vector_size(ERT_VECTOR_BYTES), aligned(4), may_alias));

ERT_INLINE vf vload(const float *p) { return *(const vf_at *)p; }
ERT_INLINE void vstore(float *p, vf v) { *(vf_at *)p = v; }
ERT_INLINE vi vload_int(const int32_t *p) { return *(const vi_at *)p; }
ERT_INLINE void vstore_int(int32_t *p, vi v) { *(vi_at *)p = v; }
ERT_INLINE vf vzero(void) { return (vf){0}; }
ERT_INLINE vf vsplat(float x) { return x - (vf){0}; }

/* Inner loops whose sums take nearly all registers say in which order things are done: compilers would do several at once,
 * and keep sums in memory meanwhile. Sanitizers see nothing of that, and are built without optimizations, which make the
 * other multiply-adds fused ones. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 32 && !defined(ERT_SANITIZED)
ERT_INLINE vf vload_now(const float *p) {
  vf v;
  __asm__ volatile("vmovups %1, %0" : "=x"(v) : "m"(*(const vf_at *)p));
  return v;
}
ERT_INLINE vf vsplat_now(const float *p) {
  vf v;
  __asm__ volatile("vbroadcastss %1, %0" : "=x"(v) : "m"(*p));
  return v;
}
ERT_INLINE vf vadd_now(vf sum, vf x, vf y) { /* sum + x * y */
  __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
  return sum;
}
#else
ERT_INLINE vf vload_now(const float *p) { return vload(p); }
ERT_INLINE vf vsplat_now(const float *p) { return vsplat(*p); }
ERT_INLINE vf vadd_now(vf sum, vf x, vf y) { return sum + x * y; }
#endif

/* VL finite f16, widened. */
ERT_INLINE vf vload_f16(const uint16_t *p) {
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
  return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#elif defined(__aarch64__)
  return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
  const vi h = {p[0], p[1], p[2], p[3]};
  return (vf)((vi)((vf)((h & 0x7fff) << 13) * 0x1p112f) | (h & 0x8000) << 16); /* as ert_float_of_f16 */
#endif
}

/* VL bf16, widened. */
ERT_INLINE vf vload_bf16(const uint16_t *p) {
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
  return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16);
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
  return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16);
#elif defined(__x86_64__)
  return (vf)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const void *)p));
#else
  return (vf)vshll_n_u16(vld1_u16(p), 16);
#endif
}

/* The nearest bf16, ties to even; NaN stays NaN. */
ERT_INLINE vf vround_bf16(vf x) {
  typedef uint32_t vu __attribute__((vector_size(ERT_VECTOR_BYTES)));
  const vu bits = (vu)x, up = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u, number = (vu)(x == x);
  return (vf)((up & number) | (bits & ~number));
}

/* The first n <= VL elements (others are not touched); lanes past them are 0. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
ERT_INLINE vf vload_part(const float *p, size_t n) { return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
ERT_INLINE void vstore_part(float *p, vf v, size_t n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
ERT_INLINE __m256i vpart_mask(size_t n) {
  static const int32_t ends[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  return (__m256i)vload_int(ends + 8 - n);
}
ERT_INLINE vf vload_part(const float *p, size_t n) { return (vf)_mm256_maskload_ps(p, vpart_mask(n)); }
/* By halves: a store under a mask takes some processors a dozen cycles. */
ERT_INLINE void vstore_part(float *p, vf v, size_t n) {
  if (n >= VL) {
    vstore(p, v);
    return;
  }
  __m128 part = _mm256_castps256_ps128((__m256)v);
  if (n & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64 *)p, part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, part);
}
#else
ERT_INLINE vf vload_part(const float *p, size_t n) {
  float lanes[VL] = {0};
  for (size_t i = 0; i < VL; i++)
    if (i < n) lanes[i] = p[i];
  return vload(lanes);
}
ERT_INLINE void vstore_part(float *p, vf v, size_t n) {
  float lanes[VL];
  vstore(lanes, v);
  for (size_t i = 0; i < VL; i++)
    if (i < n) p[i] = lanes[i];
}
#endif

/* mask lane ? a : b, for masks of 0 / -1 lanes. */
ERT_INLINE vf vselect(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* bound > x ? bound : x, and bound < x ? bound : x; a NaN in x stays NaN when bound is a number. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
ERT_INLINE vf vmax(vf bound, vf x) { return (vf)_mm512_max_ps((__m512)bound, (__m512)x); }
ERT_INLINE vf vmin(vf bound, vf x) { return (vf)_mm512_min_ps((__m512)bound, (__m512)x); }
ERT_INLINE vf vsqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
ERT_INLINE vf vmax(vf bound, vf x) { return (vf)_mm256_max_ps((__m256)bound, (__m256)x); }
ERT_INLINE vf vmin(vf bound, vf x) { return (vf)_mm256_min_ps((__m256)bound, (__m256)x); }
ERT_INLINE vf vsqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 16
ERT_INLINE vf vmax(vf bound, vf x) { return (vf)_mm_max_ps((__m128)bound, (__m128)x); }
ERT_INLINE vf vmin(vf bound, vf x) { return (vf)_mm_min_ps((__m128)bound, (__m128)x); }
ERT_INLINE vf vsqrt(vf x) { return (vf)_mm_sqrt_ps((__m128)x); }
#elif defined(__aarch64__) && ERT_VECTOR_BYTES == 16
ERT_INLINE vf vmax(vf bound, vf x) { return (vf)vmaxq_f32((float32x4_t)bound, (float32x4_t)x); }
ERT_INLINE vf vmin(vf bound, vf x) { return (vf)vminq_f32((float32x4_t)bound, (float32x4_t)x); }
ERT_INLINE vf vsqrt(vf x) { return (vf)vsqrtq_f32((float32x4_t)x); }
#else
#error "no vectors of this size on this machine"
#endif

#endif
