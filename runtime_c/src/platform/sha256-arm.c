/* SHA-256 compression with the cryptography extension of ARMv8, two messages at a time. Built with +crypto. */
#include <arm_neon.h>

#include "platform/sha256.h"

/* The registers of one message: its state and 16 words of its schedule. */
typedef struct stream {
  uint32x4_t abcd, efgh, w[4];
} stream;

/* Four rounds: number 4 i to 4 i + 3. `i` is a constant once the loop around it is unrolled. */
static inline __attribute__((always_inline)) void rounds(stream *s, const uint8_t *data, int i) {
  uint32x4_t w;
  if (i < 4) {
    w = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
  } else {
    w = vsha256su0q_u32(s->w[i % 4], s->w[(i + 1) % 4]);
    w = vsha256su1q_u32(w, s->w[(i + 2) % 4], s->w[(i + 3) % 4]);
  }
  s->w[i % 4] = w;
  uint32x4_t sum = vaddq_u32(w, vld1q_u32(ert_sha256_constants + 4 * i)), abcd = s->abcd;
  s->abcd = vsha256hq_u32(abcd, s->efgh, sum);
  s->efgh = vsha256h2q_u32(s->efgh, abcd, sum);
}

static inline stream load_state(const uint32_t state[8]) {
  return (stream){.abcd = vld1q_u32(state), .efgh = vld1q_u32(state + 4)};
}

static inline void store_state(const stream *s, uint32_t state[8]) {
  vst1q_u32(state, s->abcd);
  vst1q_u32(state + 4, s->efgh);
}

static void one(uint32_t state[8], const uint8_t *data, size_t blocks) {
  stream s = load_state(state);
  for (; blocks > 0; blocks--, data += 64) {
    uint32x4_t abcd = s.abcd, efgh = s.efgh;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) rounds(&s, data, i);
    s.abcd = vaddq_u32(s.abcd, abcd);
    s.efgh = vaddq_u32(s.efgh, efgh);
  }
  store_state(&s, state);
}

static void two(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b, size_t blocks) {
  stream s = load_state(state_a), t = load_state(state_b);
  for (; blocks > 0; blocks--, a += 64, b += 64) {
    uint32x4_t s_abcd = s.abcd, s_efgh = s.efgh, t_abcd = t.abcd, t_efgh = t.efgh;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      rounds(&s, a, i);
      rounds(&t, b, i);
    }
    s.abcd = vaddq_u32(s.abcd, s_abcd);
    s.efgh = vaddq_u32(s.efgh, s_efgh);
    t.abcd = vaddq_u32(t.abcd, t_abcd);
    t.efgh = vaddq_u32(t.efgh, t_efgh);
  }
  store_state(&s, state_a);
  store_state(&t, state_b);
}

void ert_sha256_compress_native(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b,
                                size_t blocks) {
  if (b) {
    two(state_a, a, state_b, b, blocks);
  } else {
    one(state_a, a, blocks);
  }
}
