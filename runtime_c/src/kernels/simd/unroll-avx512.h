/* Instructions for AVX-512 out of a stream of non-zeros: the weights' places are in the code, so no index is read and no loop
 * ends while they are multiplied.
 *
 * Registers 0 to 27 have the sums of sixteen positions of as many filters. Each place that some filter has a weight at is one
 * load; each weight is one multiply-add, which broadcasts it from where the bundle has it. So products are the limit: one a
 * cycle where vectors of 512 bits are multiplied one a cycle. The code is made anew for each strip, and lies in cache then. */
#ifndef ERT_KERNELS_SIMD_UNROLL_AVX512_H
#define ERT_KERNELS_SIMD_UNROLL_AVX512_H

/* What the code is called with. In registers: rdi, rsi, rdx, rcx, r8, r9. */
typedef struct unrolled_ends {
  int64_t y_filter, residual_filter; /* bytes */
  uint64_t valid, stored;
  float lo, hi;
} unrolled_ends;
typedef void (*unrolled_code)(const float *x, const float *values, const float *from, float *to, const float *residual,
                              const unrolled_ends *ends);

enum {
  UNROLLED_X = 31,    /* registers: the inputs of a place, */
  UNROLLED_LO = 28,   /* limits of outputs */
  UNROLLED_HI = 29,
  UNROLLED_REACH = 256, /* values that a displacement of one byte tells apart */
  UNROLLED_PLACE = 10,  /* bytes of a load, of a multiply-add, and of all that a value or a place may need */
  UNROLLED_VALUE = 8,
  UNROLLED_FIXED = 2048, /* of the beginning and the end */
};

/* General registers as instructions number them. */
enum { RCX = 1, RDX = 2, RSI = 6, RDI = 7, R8 = 8, R9 = 9, R10 = 10, R11 = 11 };

static size_t unrolled_bytes(size_t places, size_t values) {
  const size_t steps = (places + values) / (UNROLLED_REACH / 2) + 1;
  return UNROLLED_FIXED + places * UNROLLED_PLACE + values * UNROLLED_VALUE + steps * 8;
}

/* An instruction of 512 bits: an operation of one of the opcode maps with a mandatory prefix, a destination (or source of a
 * store), a first operand (0: none), and memory at base + disp, or a register if `base` is negative. */
typedef struct unrolled_op {
  uint8_t map, prefix, code;
} unrolled_op;

static const unrolled_op unrolled_load = {1, 0, 0x10}, unrolled_store = {1, 0, 0x11}, unrolled_plus = {1, 0, 0x58},
                         unrolled_least = {1, 0, 0x5d}, unrolled_most = {1, 0, 0x5f}, unrolled_splat = {2, 1, 0x18},
                         unrolled_pack = {2, 1, 0x8a}, unrolled_fma = {2, 1, 0xb8}, unrolled_xor = {1, 1, 0xef};

ERT_INLINE uint8_t *unrolled_evex(uint8_t *p, unrolled_op op, int to, int first, int base, int disp, int mask,
                                  bool zeroed) {
  const int rm = base < 0 ? -1 - base : base;
  *p++ = 0x62;
  *p++ = (uint8_t)((~to >> 3 & 1) << 7 | (base < 0 ? ~rm >> 4 & 1 : 1) << 6 | (~rm >> 3 & 1) << 5 |
                   (~to >> 4 & 1) << 4 | op.map);
  *p++ = (uint8_t)((~first & 15) << 3 | 4 | op.prefix);
  *p++ = (uint8_t)((zeroed ? 0x80 : 0) | 0x40 | (~first >> 4 & 1) << 3 | mask);
  *p++ = op.code;
  *p++ = (uint8_t)((base < 0 ? 0xc0 : 0x80) | (to & 7) << 3 | (rm & 7));
  if (base < 0) return p;
  memcpy(p, &disp, 4);
  return p + 4;
}

/* What general registers need: bytes as the manual has them. */
ERT_INLINE uint8_t *unrolled_put(uint8_t *p, const char *bytes, size_t n) {
  memcpy(p, bytes, n);
  return p + n;
}
#define UNROLLED_PUT(p, bytes) unrolled_put(p, bytes, sizeof bytes - 1)

static uint8_t *unrolled_prologue(const ert_unrolled *u, uint8_t *p) {
  p = UNROLLED_PUT(p, "\xf3\x0f\x1e\xfa"); /* endbr64 */
  for (int f = 0; f < (int)u->n_filters; f++)
    if (!u->first)
      p = unrolled_evex(p, unrolled_load, f, 0, RDX, f * 64, 0, false);
    else if (u->bias)
      p = unrolled_evex(p, unrolled_splat, f, 0, RDX, f * 4, 0, false);
    else
      p = unrolled_evex(p, unrolled_xor, f, f, -1 - f, 0, 0, false);
  return UNROLLED_PUT(p, "\x48\x81\xc6\x00\x02\x00\x00"); /* add rsi, 512: displacements are signed */
}

/* Of each output: add the residual, limit, store. Outputs that move together leave lanes out that are none. */
static uint8_t *unrolled_epilogue(const ert_unrolled *u, uint8_t *p) {
  if (!u->last) {
    for (int f = 0; f < (int)u->n_filters; f++) p = unrolled_evex(p, unrolled_store, f, 0, RCX, f * 64, 0, false);
    return UNROLLED_PUT(p, "\xc5\xf8\x77\xc3"); /* vzeroupper, ret */
  }
  const bool above = u->lo > -INFINITY, below = u->hi < INFINITY;
  p = UNROLLED_PUT(p, "\x4d\x8b\x11\x4d\x8b\x59\x08");             /* mov r10, [r9]; mov r11, [r9 + 8] */
  p = UNROLLED_PUT(p, "\xc4\xc1\xf8\x90\x49\x10\xc4\xc1\xf8\x90\x51\x18"); /* kmovq k1, [r9 + 16]; k2, [r9 + 24] */
  if (above) p = unrolled_evex(p, unrolled_splat, UNROLLED_LO, 0, R9, 32, 0, false);
  if (below) p = unrolled_evex(p, unrolled_splat, UNROLLED_HI, 0, R9, 36, 0, false);
  for (int f = 0; f < (int)u->n_filters; f++) {
    if (u->together) p = unrolled_evex(p, unrolled_pack, f, 0, -1 - f, 0, 1, true);
    if (u->residual) p = unrolled_evex(p, unrolled_plus, f, f, R8, 0, 2, true);
    if (above) p = unrolled_evex(p, unrolled_most, f, UNROLLED_LO, -1 - f, 0, 0, false);
    if (below) p = unrolled_evex(p, unrolled_least, f, UNROLLED_HI, -1 - f, 0, 0, false);
    p = unrolled_evex(p, unrolled_store, f, 0, RCX, 0, 2, false);
    p = UNROLLED_PUT(p, "\x4c\x01\xd1\x4d\x01\xd8"); /* add rcx, r10; add r8, r11 */
  }
  return UNROLLED_PUT(p, "\xc5\xf8\x77\xc3");
}

/* Up to eight multiply-adds at once, each in eight bytes: sum number f += x * [rsi + 4 (at - 128)]. The bytes are a prefix
 * that does nothing, the four of EVEX, opcode, operands and displacement; the sum's number is in bits 0 to 2 of the operands'
 * middle, and inverted in two of the second. */
ERT_INLINE __m512i unrolled_products(__m512i filters, __m512i displaced) {
  const __m512i low = _mm512_and_si512(_mm512_slli_epi64(filters, 51), _mm512_set1_epi64(INT64_C(7) << 51));
  const __m512i bit3 = _mm512_and_si512(_mm512_slli_epi64(filters, 20), _mm512_set1_epi64(INT64_C(8) << 20));
  const __m512i bit4 = _mm512_and_si512(_mm512_slli_epi64(filters, 16), _mm512_set1_epi64(INT64_C(16) << 16));
  return _mm512_ternarylogic_epi64(_mm512_or_si512(low, displaced), bit3, bit4, 0x96);
}

static uint8_t *unrolled_body(const ert_unrolled *u, uint8_t *p) {
  /* ds; vfmadd231ps zmm0, zmm31, [rsi - 512]{1to16}, for filters 0 to 7 displaced one after the other */
  const uint64_t product = UINT64_C(0x8046b85005f2623e);
  const __m512i each = _mm512_setr_epi64(0, INT64_C(1) << 56, INT64_C(2) << 56, INT64_C(3) << 56, INT64_C(4) << 56,
                                         INT64_C(5) << 56, INT64_C(6) << 56, INT64_C(7) << 56);
  const __m512i first = _mm512_add_epi64(each, _mm512_set1_epi64((long long)product));
  uint64_t load; /* vmovups zmm31, [rdi + disp32] */
  memcpy(&load, "\x62\x61\x7c\x48\x10\xbf\0", 8);
  const uint8_t *filter = u->filters, *end = u->filters + u->n_values;
  const int32_t *offset = u->offsets - 1;
  uint32_t at = 0; /* values since rsi moved */
  for (size_t i = 0; i < u->n_places; i++) {
    const uint32_t n = u->places[i] & 31;
    offset += u->places[i] >> 5;
    if (__builtin_expect(at + n > UNROLLED_REACH, 0)) {
      p = UNROLLED_PUT(p, "\x48\x81\xc6"); /* add rsi, 4 at */
      at *= 4;
      memcpy(p, &at, 4);
      p += 4;
      at = 0;
    }
    memcpy(p, &load, 8);
    memcpy(p + 6, offset, 4);
    p += n > 0 ? UNROLLED_PLACE : 0;
    __m512i displaced = _mm512_add_epi64(first, _mm512_set1_epi64((long long)((uint64_t)at << 56)));
    for (uint32_t k = 0;;) {
      const size_t left = (size_t)(end - filter) - k;
      const __m128i eight = __builtin_expect(left >= 8, 1)
                                ? _mm_loadl_epi64((const __m128i *)(const void *)(filter + k))
                                : _mm_maskz_loadu_epi8((__mmask16)((1u << left) - 1), filter + k);
      _mm512_storeu_si512(p + k * UNROLLED_VALUE, unrolled_products(_mm512_cvtepu8_epi64(eight), displaced));
      k += 8;
      if (__builtin_expect(k >= n, 1)) break;
      displaced = _mm512_add_epi64(displaced, _mm512_set1_epi64(INT64_C(8) << 56));
    }
    p += n * UNROLLED_VALUE;
    filter += n;
    at += n;
  }
  return p;
}

static void unrolled_run(const ert_unrolled *u) {
  if (!u->code) {
    unrolled_walk(u);
    return;
  }
  uint8_t *p = unrolled_body(u, unrolled_prologue(u, u->code));
  unrolled_epilogue(u, p);
  const unrolled_code run = (unrolled_code)(uintptr_t)(u->code + u->executable);
  unrolled_ends ends = {.y_filter = u->y_filter * 4, .residual_filter = u->residual_filter * 4, .lo = u->lo, .hi = u->hi};
  for (size_t v = 0; v < u->n_vectors; v++) {
    const ert_unrolled_vector *at = u->vectors + v;
    float *sums = u->sums + v * u->n_filters * ERT_UNROLLED_LANES;
    ends.valid = at->valid, ends.stored = at->stored;
    run(u->x + at->x, u->values, u->first ? u->bias : sums, u->last ? u->y + at->y : sums,
        u->residual ? u->residual + at->residual : NULL, &ends);
  }
}

#endif
