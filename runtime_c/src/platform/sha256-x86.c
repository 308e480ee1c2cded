/* SHA-256 compression with the SHA extensions of x86, two messages at a time. Built with -msha -msse4.1. */
#include <immintrin.h>

#include "platform/sha256.h"

typedef __m128i words;

/* The registers of one message: its state in the order the instructions want, abef and cdgh, and 16 words of its
 * schedule. */
typedef struct stream {
  words state[2], w[4];
} stream;

static inline words add(words a, words b) { return _mm_add_epi32(a, b); }

static inline stream load_state(const uint32_t state[8]) {
  words dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
  words hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
  words cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  return (stream){.state = {_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0)}};
}

static inline void store_state(const stream *s, uint32_t state[8]) {
  words feba = _mm_shuffle_epi32(s->state[0], 0x1b), dchg = _mm_shuffle_epi32(s->state[1], 0xb1);
  _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Four rounds: number 4 i to 4 i + 3. `i` is a constant once the loop around it is unrolled. */
static inline __attribute__((always_inline)) void rounds(stream *s, const uint8_t *data, int i) {
  const words reverse = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  words w;
  if (i < 4) {
    w = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), reverse);
  } else {
    words last = s->w[(i + 3) % 4];
    w = _mm_sha256msg1_epu32(s->w[i % 4], s->w[(i + 1) % 4]);
    w = add(w, _mm_alignr_epi8(last, s->w[(i + 2) % 4], 4));
    w = _mm_sha256msg2_epu32(w, last);
  }
  s->w[i % 4] = w;
  words sum = add(w, _mm_load_si128((const __m128i *)(const void *)(ert_sha256_constants + 4 * i)));
  words first = s->state[0], middle = _mm_sha256rnds2_epu32(s->state[1], first, sum);
  s->state[0] = _mm_sha256rnds2_epu32(first, middle, _mm_shuffle_epi32(sum, 0x0e));
  s->state[1] = middle;
}

#include "platform/sha256-loops.h"
