/* Sparse inner loop: the pixels of one filter stay in registers while its non-zeros of a tile of channels pass by.
 *
 * A non-zero is a broadcast weight and one multiply-add a vector, whose inputs come straight from the tile in the first-level
 * cache. Loads are the limit, so four indices and four weights are loaded at once and taken apart in registers, and columns
 * that are not aligned are summed up as if they were: between groups of non-zeros the accumulators move by one pixel. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_H
#define ERT_KERNELS_SIMD_F32_SPARSE_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* How many accumulators, four weights and a broadcast one fit the registers; of each of four filters; both in floats. */
#define SPARSE_TO_3(X)  X(1) X(2) X(3)
#define SPARSE_TO_6(X)  SPARSE_TO_3(X) X(4) X(5) X(6)
#define SPARSE_TO_12(X) SPARSE_TO_6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#define SPARSE_TO_14(X) SPARSE_TO_12(X) X(13) X(14)
#define SPARSE_TO_16(X) SPARSE_TO_14(X) X(15) X(16)
#define SPARSE_TO_24(X) SPARSE_TO_16(X) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24)

/* Four weights, repeated in every 16 bytes of a vector; one of them in all lanes; a vector moved by one lane, the first
 * one of `next` filling the last. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
#define SPARSE_COUNTS SPARSE_TO_14
#define SPARSE_FOURS  SPARSE_TO_6
enum { SPARSE_MOST = 14 * VL, SPARSE_FOUR_MOST = 6 * VL };
#define sparse_lane(four, i) ((vf)_mm512_permute_ps((__m512)(four), (i) * 0x55))
ERT_INLINE vf sparse_four(const float *w) { return (vf)_mm512_broadcast_f32x4(_mm_loadu_ps(w)); }
ERT_INLINE vf sparse_move(vf v, vf next) { return (vf)_mm512_alignr_epi32((__m512i)next, (__m512i)v, 1); }
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
#define SPARSE_COUNTS        SPARSE_TO_12
#define SPARSE_FOURS         SPARSE_TO_3
enum { SPARSE_MOST = 12 * VL, SPARSE_FOUR_MOST = 3 * VL };
#define sparse_lane(four, i) ((vf)_mm256_permute_ps((__m256)(four), (i) * 0x55))
ERT_INLINE vf sparse_four(const float *w) { return (vf)_mm256_broadcast_ps((const __m128 *)w); }
ERT_INLINE vf sparse_move(vf v, vf next) {
  const __m256i middle = (__m256i)_mm256_permute2f128_ps((__m256)v, (__m256)next, 0x21);
  return (vf)_mm256_alignr_epi8(middle, (__m256i)v, 4);
}
#elif defined(__x86_64__)
#define SPARSE_COUNTS        SPARSE_TO_12
#define SPARSE_FOURS         SPARSE_TO_3
enum { SPARSE_MOST = 12 * VL, SPARSE_FOUR_MOST = 3 * VL };
#define sparse_lane(four, i) ((vf)_mm_shuffle_ps((__m128)(four), (__m128)(four), (i) * 0x55))
ERT_INLINE vf sparse_four(const float *w) { return vload(w); }
ERT_INLINE vf sparse_move(vf v, vf next) {
  const __m128 mixed = _mm_move_ss((__m128)v, (__m128)next);
  return (vf)_mm_shuffle_ps(mixed, mixed, 0x39);
}
#else
#define SPARSE_COUNTS        SPARSE_TO_24
#define SPARSE_FOURS         SPARSE_TO_6
enum { SPARSE_MOST = 24 * VL, SPARSE_FOUR_MOST = 6 * VL };
#define sparse_lane(four, i) ((vf)vdupq_laneq_f32((float32x4_t)(four), i))
ERT_INLINE vf sparse_four(const float *w) { return vload(w); }
ERT_INLINE vf sparse_move(vf v, vf next) { return (vf)vextq_f32((float32x4_t)v, (float32x4_t)next, 1); }
#endif

/* Four indices, one of them, and one alone. */
ERT_INLINE uint64_t sparse_four_indices(const uint8_t *indices, ert_sparse_indices indexed) {
  uint64_t eight;
  uint32_t four;
  if (indexed == ERT_SPARSE_WIDE_LINE) return memcpy(&eight, indices, sizeof eight), eight;
  return memcpy(&four, indices, sizeof four), four;
}
ERT_INLINE size_t sparse_index(uint64_t four, int i, ert_sparse_indices indexed) {
  return indexed == ERT_SPARSE_WIDE_LINE ? four >> 16 * i & (ERT_SPARSE_WIDE_LINES - 1) : four >> 8 * i & 255;
}
ERT_INLINE size_t sparse_one_index(const uint8_t *indices, ert_sparse_indices indexed) {
  uint16_t index;
  if (indexed != ERT_SPARSE_WIDE_LINE) return *indices;
  return memcpy(&index, indices, sizeof index), index & (ERT_SPARSE_WIDE_LINES - 1);
}

/* Further on by so many bytes: compilers would keep too many sums of these. */
ERT_INLINE const char *sparse_on(const char *from, size_t bytes) {
  from += bytes;
  __asm__("" : "+r"(from));
  return from;
}

#define sparse_load       vload
#define sparse_load_part  vload_part
#define sparse_store      vstore
#define sparse_store_part vstore_part
#define sparse_min        vmin
#define sparse_max        vmax
#define OP(name)          sparse_##name
#define SPARSE_VECTOR     vf
#define SPARSE_VL         VL
#include "kernels/simd/f32-sparse-rows.h"
#undef OP
#undef SPARSE_VECTOR
#undef SPARSE_VL
#undef SPARSE_COUNTS

#if ERT_VECTOR_BYTES == 64 /* half vectors, of which narrow images waste fewer lanes */
typedef float vh __attribute__((vector_size(32)));
typedef float vh_at __attribute__((vector_size(32), aligned(4), may_alias));
enum { SPARSE_UNIT = VL / 2, SPARSE_UNIT_MOST = 16 * SPARSE_UNIT, SPARSE_UNIT_FOUR_MOST = 6 * SPARSE_UNIT };
#define half_lane(four, i) ((vh)_mm256_permute_ps((__m256)(four), (i) * 0x55))
ERT_INLINE vh half_four(const float *w) { return (vh)_mm256_broadcast_ps((const __m128 *)w); }
ERT_INLINE vh half_load(const float *p) { return *(const vh_at *)p; }
ERT_INLINE void half_store(float *p, vh v) { *(vh_at *)p = v; }
ERT_INLINE vh half_load_part(const float *p, size_t n) {
  return (vh)_mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1), p);
}
ERT_INLINE void half_store_part(float *p, vh v, size_t n) {
  _mm256_mask_storeu_ps(p, (__mmask8)((1u << n) - 1), (__m256)v);
}
ERT_INLINE vh half_max(vh bound, vh x) { return (vh)_mm256_max_ps((__m256)bound, (__m256)x); }
ERT_INLINE vh half_min(vh bound, vh x) { return (vh)_mm256_min_ps((__m256)bound, (__m256)x); }
ERT_INLINE vh half_move(vh v, vh next) { return (vh)_mm256_alignr_epi32((__m256i)next, (__m256i)v, 1); }
#define SPARSE_COUNTS SPARSE_TO_16
#define OP(name)      half_##name
#define SPARSE_VECTOR vh
#define SPARSE_VL     SPARSE_UNIT
#include "kernels/simd/f32-sparse-rows.h"
#undef OP
#undef SPARSE_VECTOR
#undef SPARSE_VL
#undef SPARSE_COUNTS
enum { SPARSE_TAIL_MOST = 6 * VL };
#include "kernels/simd/f32-sparse-tail.h"
#else
enum {
  SPARSE_TAIL_MOST = 0,
  SPARSE_UNIT = VL,
  SPARSE_UNIT_MOST = SPARSE_MOST,
  SPARSE_UNIT_FOUR_MOST = SPARSE_FOUR_MOST
};
#endif

static void sparse_run(const ert_sparse *s) {
#if ERT_VECTOR_BYTES == 64
  if (s->x_tail) {
    tail_functions[s->floats / VL][s->indexed][!s->first && !s->last](s);
    return;
  }
  const size_t halves = (s->floats + SPARSE_UNIT - 1) / SPARSE_UNIT;
  const size_t most = s->together == 1 ? SPARSE_UNIT_MOST : SPARSE_UNIT_FOUR_MOST;
  if ((s->rows > 1 && s->line % VL != 0) || (halves % 2 == 1 && halves <= most / SPARSE_UNIT)) {
    half_choose(s);
    return;
  }
#endif
  sparse_choose(s);
}

static void sparse_widen(ert_weights weights, const uint16_t *x, float *y, size_t n) {
  uint16_t rest[VL] = {0};
  const size_t whole = n / VL * VL;
  memcpy(rest, x + whole, (n - whole) * sizeof *x);
  if (weights == ERT_WEIGHTS_F16) {
    for (size_t i = 0; i < whole; i += VL) vstore(y + i, vload_f16(x + i));
    if (whole < n) vstore(y + whole, vload_f16(rest));
  } else {
    for (size_t i = 0; i < whole; i += VL) vstore(y + i, vload_bf16(x + i));
    if (whole < n) vstore(y + whole, vload_bf16(rest));
  }
}

#endif
