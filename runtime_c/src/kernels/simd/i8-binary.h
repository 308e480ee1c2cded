/* Sums and products of pairs of bytes that stand for numbers, as bytes. */

/* 16 bytes as numbers around a zero point. */
ERT_INLINE void i8_numbers(const uint8_t *x, int32_t zero, vf numbers[V16]) {
  vi levels[V16];
  i8_load(x, levels);
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) numbers[v] = __builtin_convertvector(levels[v] - zero, vf);
}

/* 16 pairs. */
ERT_INLINE void i8_binary_block(const ert_i8_binary *p, bool product, const uint8_t *a, const vf b[V16], uint8_t *y) {
  vf numbers[V16];
  vi levels[V16];
  i8_numbers(a, p->zeros[0], numbers);
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    const vf value = product ? numbers[v] * b[v] * vsplat(p->scales[0] * p->scales[1])
                             : numbers[v] * vsplat(p->scales[0]) + b[v] * vsplat(p->scales[1]);
    levels[v] = i8_round(vmin(vsplat(p->hi), vmax(vsplat(p->lo), value))) + p->zero;
  }
  i8_store_levels(y, levels);
}

/* How far to go in b for the next 16 pairs tells what lies there: their bytes, or those of all. */
ERT_INLINE void i8_binary_blocks(const ert_i8_binary *p, bool product, const uint8_t *a, const uint8_t *b, size_t step,
                                 uint8_t *y, size_t blocks) {
  vf numbers[V16];
  i8_numbers(b, p->zeros[1], numbers);
  for (; blocks > 0; blocks--, a += 16, y += 16) {
    if (step) i8_numbers(b, p->zeros[1], numbers), b += step;
    i8_binary_block(p, product, a, numbers, y);
  }
}

ERT_INLINE void i8_binary_all(const ert_i8_binary *p, bool product, const uint8_t *a, const uint8_t *b, size_t step,
                              uint8_t *y, size_t n) {
  const size_t whole = n / 16 * 16, rest = n - whole;
  if (whole) i8_binary_blocks(p, product, a, b, step, y, whole / 16);
  if (rest == 0) return;
  uint8_t last[2][16] = {{0}};
  memcpy(last[0], a + whole, rest);
  memcpy(last[1], step ? b + whole : b, step ? rest : 16);
  i8_binary_blocks(p, product, last[0], last[1], 0, last[0], 1);
  memcpy(y + whole, last[0], rest);
}

static void i8_binary(const ert_i8_binary *pair, ert_i8_form form, const uint8_t *a, const uint8_t *b, uint8_t *y,
                      size_t n) {
  const ert_i8_binary p = *pair; /* which bytes of y could lie over */
  uint8_t one[16];
  if (form == ERT_I8_ONE) b = memset(one, *b, sizeof one);
  if (p.product)
    i8_binary_all(&p, true, a, b, form == ERT_I8_SAME ? 16 : 0, y, n);
  else
    i8_binary_all(&p, false, a, b, form == ERT_I8_SAME ? 16 : 0, y, n);
}
