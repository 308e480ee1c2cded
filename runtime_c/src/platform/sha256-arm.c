/* SHA-256 compression with the cryptography extension of ARMv8, two messages at a time. Built with +crypto. */
#include <arm_neon.h>

#include "platform/sha256.h"

typedef uint32x4_t words;

/* The registers of one message: its state, abcd and efgh, and 16 words of its schedule. */
typedef struct stream {
  words state[2], w[4];
} stream;

static inline words add(words a, words b) { return vaddq_u32(a, b); }

/* Four rounds: number 4 i to 4 i + 3. `i` is a constant once the loop around it is unrolled. */
static inline __attribute__((always_inline)) void rounds(stream *s, const uint8_t *data, int i) {
  words w;
  if (i < 4) {
    w = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
  } else {
    w = vsha256su0q_u32(s->w[i % 4], s->w[(i + 1) % 4]);
    w = vsha256su1q_u32(w, s->w[(i + 2) % 4], s->w[(i + 3) % 4]);
  }
  s->w[i % 4] = w;
  words sum = add(w, vld1q_u32(ert_sha256_constants + 4 * i)), abcd = s->state[0], efgh = s->state[1];
  s->state[0] = vsha256hq_u32(abcd, efgh, sum);
  s->state[1] = vsha256h2q_u32(efgh, abcd, sum);
}

static inline stream load_state(const uint32_t state[8]) {
  return (stream){.state = {vld1q_u32(state), vld1q_u32(state + 4)}};
}

static inline void store_state(const stream *s, uint32_t state[8]) {
  vst1q_u32(state, s->state[0]);
  vst1q_u32(state + 4, s->state[1]);
}

#include "platform/sha256-loops.h"
