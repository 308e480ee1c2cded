/* Neighbouring values, spread over the lanes of a vector whose bits are set. */
#ifndef ERT_KERNELS_SIMD_MASKED_EXPAND_H
#define ERT_KERNELS_SIMD_MASKED_EXPAND_H

#include "kernels/simd/vec.h"

/* How many of the bits of VL lanes are set. */
ERT_INLINE size_t masked_count(unsigned bits) {
#if ERT_VECTOR_BYTES == 16
  return (size_t)(0x4332322132212110u >> 4 * bits & 0xf); /* without an instruction for it */
#else
  return (size_t)__builtin_popcount(bits);
#endif
}

/* The table of all bits of VL lanes: which of the values, or NONE, each lane has. */
#define MASKED_RANK(bits, lane, none) ((bits) >> (lane) & 1 ? __builtin_popcount((bits) & ((1 << (lane)) - 1)) : (none))
#define MASKED_4(ROW, bits)           ROW(bits), ROW((bits) + 1), ROW((bits) + 2), ROW((bits) + 3)
#define MASKED_16(ROW, bits) \
  MASKED_4(ROW, bits), MASKED_4(ROW, (bits) + 4), MASKED_4(ROW, (bits) + 8), MASKED_4(ROW, (bits) + 12)
#define MASKED_64(ROW, bits) \
  MASKED_16(ROW, bits), MASKED_16(ROW, (bits) + 16), MASKED_16(ROW, (bits) + 32), MASKED_16(ROW, (bits) + 48)
#define MASKED_256(ROW, bits) \
  MASKED_64(ROW, bits), MASKED_64(ROW, (bits) + 64), MASKED_64(ROW, (bits) + 128), MASKED_64(ROW, (bits) + 192)

/* Lane i has as many values before it as there are bits below bit i; it is zero if that is not set. */
#if ERT_VECTOR_BYTES == 64
ERT_INLINE vf masked_expand(vf values, unsigned bits) {
  __m512 from = (__m512)values, to = _mm512_setzero_ps();
  /* Compilers do not see what these are: they would load `from` as they expand it, which is slow, and leave out `to`,
   * so that the instruction waited for what its destination was before. */
  __asm__("" : "+v"(from), "+v"(to));
  return (vf)_mm512_mask_expand_ps(to, (__mmask16)bits, from);
}

#elif ERT_VECTOR_BYTES == 32
#define MASKED_LANE(bits, lane) MASKED_RANK(bits, lane, -1)
#define MASKED_ROW(bits)                                                                   \
  {MASKED_LANE(bits, 0), MASKED_LANE(bits, 1), MASKED_LANE(bits, 2), MASKED_LANE(bits, 3), \
   MASKED_LANE(bits, 4), MASKED_LANE(bits, 5), MASKED_LANE(bits, 6), MASKED_LANE(bits, 7)}

static const int8_t masked_ranks[256][8] = {MASKED_256(MASKED_ROW, 0)};

ERT_INLINE vf masked_expand(vf values, unsigned bits) {
  const __m256i ranks = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)masked_ranks[bits]));
  const __m256 moved = _mm256_permutevar8x32_ps((__m256)values, ranks);
  return (vf)_mm256_blendv_ps(moved, _mm256_setzero_ps(), (__m256)ranks); /* by the sign */
}

#elif defined(__aarch64__)
#define MASKED_BYTE(bits, lane, byte) (MASKED_RANK(bits, lane, 63) * 4 + (byte))
#define MASKED_LANE(bits, lane) \
  MASKED_BYTE(bits, lane, 0), MASKED_BYTE(bits, lane, 1), MASKED_BYTE(bits, lane, 2), MASKED_BYTE(bits, lane, 3)
#define MASKED_ROW(bits) {MASKED_LANE(bits, 0), MASKED_LANE(bits, 1), MASKED_LANE(bits, 2), MASKED_LANE(bits, 3)}

static const uint8_t masked_bytes[16][16] = {MASKED_16(MASKED_ROW, 0)}; /* bytes beyond a vector are zero */

ERT_INLINE vf masked_expand(vf values, unsigned bits) {
  return (vf)vqtbl1q_u8((uint8x16_t)values, vld1q_u8(masked_bytes[bits]));
}

#else
#define MASKED_LANE(bits, lane) MASKED_RANK(bits, lane, 4)
#define MASKED_ROW(bits)        {MASKED_LANE(bits, 0), MASKED_LANE(bits, 1), MASKED_LANE(bits, 2), MASKED_LANE(bits, 3)}

static const uint8_t masked_ranks[16][4] = {MASKED_16(MASKED_ROW, 0)};

ERT_INLINE vf masked_expand(vf values, unsigned bits) {
  const uint8_t *ranks = masked_ranks[bits];
  float lanes[VL + 1] = {0};
  vstore(lanes, values);
  return (vf){lanes[ranks[0]], lanes[ranks[1]], lanes[ranks[2]], lanes[ranks[3]]};
}
#endif

#endif
