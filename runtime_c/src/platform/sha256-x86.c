/* SHA-256 compression with the SHA extensions of x86, two messages at a time. Built with -msha -msse4.1. */
#include <immintrin.h>

#include "platform/sha256.h"

/* The registers of one message: its state in the order the instructions want, and 16 words of its schedule. */
typedef struct stream {
  __m128i abef, cdgh, w[4];
} stream;

static inline stream load_state(const uint32_t state[8]) {
  __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
  __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
  __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  return (stream){.abef = _mm_alignr_epi8(cdab, efgh, 8), .cdgh = _mm_blend_epi16(efgh, cdab, 0xf0)};
}

static inline void store_state(const stream *s, uint32_t state[8]) {
  __m128i feba = _mm_shuffle_epi32(s->abef, 0x1b), dchg = _mm_shuffle_epi32(s->cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Four rounds: number 4 i to 4 i + 3. `i` is a constant once the loop around it is unrolled. */
static inline __attribute__((always_inline)) void rounds(stream *s, const uint8_t *data, int i) {
  const __m128i reverse = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i w;
  if (i < 4) {
    w = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), reverse);
  } else {
    __m128i last = s->w[(i + 3) % 4];
    w = _mm_sha256msg1_epu32(s->w[i % 4], s->w[(i + 1) % 4]);
    w = _mm_add_epi32(w, _mm_alignr_epi8(last, s->w[(i + 2) % 4], 4));
    w = _mm_sha256msg2_epu32(w, last);
  }
  s->w[i % 4] = w;
  __m128i k = _mm_load_si128((const __m128i *)(const void *)(ert_sha256_constants + 4 * i));
  __m128i sum = _mm_add_epi32(w, k);
  __m128i first = s->abef;
  __m128i middle = _mm_sha256rnds2_epu32(s->cdgh, first, sum);
  s->abef = _mm_sha256rnds2_epu32(first, middle, _mm_shuffle_epi32(sum, 0x0e));
  s->cdgh = middle;
}

static void one(uint32_t state[8], const uint8_t *data, size_t blocks) {
  stream s = load_state(state);
  for (; blocks > 0; blocks--, data += 64) {
    __m128i abef = s.abef, cdgh = s.cdgh;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) rounds(&s, data, i);
    s.abef = _mm_add_epi32(s.abef, abef);
    s.cdgh = _mm_add_epi32(s.cdgh, cdgh);
  }
  store_state(&s, state);
}

static void two(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b, size_t blocks) {
  stream s = load_state(state_a), t = load_state(state_b);
  for (; blocks > 0; blocks--, a += 64, b += 64) {
    __m128i s_abef = s.abef, s_cdgh = s.cdgh, t_abef = t.abef, t_cdgh = t.cdgh;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      rounds(&s, a, i);
      rounds(&t, b, i);
    }
    s.abef = _mm_add_epi32(s.abef, s_abef);
    s.cdgh = _mm_add_epi32(s.cdgh, s_cdgh);
    t.abef = _mm_add_epi32(t.abef, t_abef);
    t.cdgh = _mm_add_epi32(t.cdgh, t_cdgh);
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
