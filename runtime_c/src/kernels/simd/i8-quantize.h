/* Floats to bytes and back, and the range that they lie in. */

/* 16 floats as bytes. */
ERT_INLINE void i8_quantize_block(const float *x, vf scale, int32_t zero, uint8_t *y) {
  vi levels[V16];
  const vf lo = vsplat((float)-zero), hi = vsplat((float)(255 - zero));
#pragma GCC unroll 4
  for (int v = 0; v < V16; v++) {
    const vf steps = vload(x + v * VL) / scale;
    levels[v] = (i8_round(vmin(hi, vmax(lo, steps))) + zero) & (steps == steps);
  }
  i8_store_levels(y, levels);
}

static void i8_quantize(const float *x, float scale, int32_t zero, uint8_t *y, size_t n) {
  const vf divisor = vsplat(scale);
  for (; n >= 16; n -= 16, x += 16, y += 16) i8_quantize_block(x, divisor, zero, y);
  if (n == 0) return;
  float last[16] = {0};
  uint8_t bytes[16];
  memcpy(last, x, n * sizeof *x);
  i8_quantize_block(last, divisor, zero, bytes);
  memcpy(y, bytes, n);
}

static void i8_dequantize(const uint8_t *x, float scale, int32_t zero, float *y, size_t n) {
  for (; n >= 16; n -= 16, x += 16, y += 16) {
    vi levels[V16];
    i8_load(x, levels);
#pragma GCC unroll 4
    for (int v = 0; v < V16; v++) vstore(y + v * VL, __builtin_convertvector(levels[v] - zero, vf) * vsplat(scale));
  }
  for (; n > 0; n--, x++, y++) *y = (float)(*x - zero) * scale;
}

static void i8_range(const float *x, size_t n, float range[2]) {
  vf least = vsplat(range[0]), most = vsplat(range[1]);
  size_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL) {
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; v++) {
      const vf numbers = vload(x + i + v * VL);
      least = i8_least(least, numbers), most = i8_most(most, numbers);
    }
  }
  for (size_t lane = 0; lane < VL; lane++) {
    range[0] = least[lane] < range[0] ? least[lane] : range[0];
    range[1] = most[lane] > range[1] ? most[lane] : range[1];
  }
  for (; i < n; i++) {
    range[0] = x[i] < range[0] ? x[i] : range[0];
    range[1] = x[i] > range[1] ? x[i] : range[1];
  }
}
