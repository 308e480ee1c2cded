/* A table's element for every byte: out of registers where vectors can be permuted by bytes, else one by one. */

static void i8_lookup_each(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}

#if ERT_VECTOR_BYTES == 64

/* By two tables of 128 bytes each; the highest bit tells which. */
__attribute__((target("avx512vbmi"))) static void i8_lookup_vbmi(const uint8_t table[256], const uint8_t *x, uint8_t *y,
                                                                 size_t n) {
  __m512i part[4];
  for (int i = 0; i < 4; i++) part[i] = _mm512_loadu_si512(table + 64 * i);
  for (; n > 0; x += 64, y += 64) {
    const __mmask64 left = n < 64 ? (1ull << n) - 1 : ~0ull;
    const __m512i at = _mm512_maskz_loadu_epi8(left, x);
    const __m512i low = _mm512_permutex2var_epi8(part[0], at, part[1]);
    const __m512i high = _mm512_permutex2var_epi8(part[2], at, part[3]);
    _mm512_mask_storeu_epi8(y, left, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
    n -= n < 64 ? n : 64;
  }
}

static void i8_lookup(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n) {
  (__builtin_cpu_supports("avx512vbmi") ? i8_lookup_vbmi : i8_lookup_each)(table, x, y, n);
}

#elif ERT_VECTOR_BYTES == 32

/* By 16 tables of 16 bytes each: indices of other ones are negative, for which shuffles give zero. */
static void i8_lookup(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n) {
  const __m256i sixteen = _mm256_set1_epi8(16), far = _mm256_set1_epi8(0x70);
  for (; n >= 32; n -= 32, x += 32, y += 32) {
    __m256i at = _mm256_loadu_si256((const __m256i_u *)(const void *)x), found = _mm256_setzero_si256();
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      const __m128i row = _mm_loadu_si128((const __m128i_u *)(const void *)(table + 16 * i));
      /* 0 to 15 stay below 128, and 16 to 255 are raised beyond */
      found = _mm256_or_si256(found, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(row), _mm256_adds_epu8(at, far)));
      at = _mm256_sub_epi8(at, sixteen);
    }
    _mm256_storeu_si256((__m256i_u *)(void *)y, found);
  }
  i8_lookup_each(table, x, y, n);
}

#elif defined(__aarch64__)

/* By four tables of 64 bytes each, of which those beyond leave what is there. */
static void i8_lookup(const uint8_t table[256], const uint8_t *x, uint8_t *y, size_t n) {
  uint8x16x4_t part[4];
  for (int i = 0; i < 4; i++) part[i] = vld1q_u8_x4(table + 64 * i);
  for (; n >= 16; n -= 16, x += 16, y += 16) {
    const uint8x16_t at = vld1q_u8(x), step = vdupq_n_u8(64);
    uint8x16_t found = vqtbl4q_u8(part[0], at), left = at;
    for (int i = 1; i < 4; i++) found = vqtbx4q_u8(found, part[i], left = vsubq_u8(left, step));
    vst1q_u8(y, found);
  }
  i8_lookup_each(table, x, y, n);
}

#else
#define i8_lookup i8_lookup_each
#endif
