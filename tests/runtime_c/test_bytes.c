/* Inner loops of bytes: every instruction set gives the very bits of the scalar specification, over random geometries. */
#include <math.h>

#include "kernels/simd/i8.h"
#include "test.h"

static uint32_t seed = 1;

static size_t below(size_t n) { return next_random(&seed) % n; }

/* Exactly `n` random bytes, so that sanitizers see a step beyond. The caller frees them. */
static void *bytes(size_t n) {
  uint8_t *values = malloc(n + (n == 0));
  CHECK(values != NULL);
  for (size_t i = 0; i < n; i++) values[i] = (uint8_t)next_random(&seed);
  return values;
}

/* Biases and scales of `n` channels: results fill the range of bytes, and some more. */
static int32_t *biases(size_t n) {
  int32_t *values = bytes(n * sizeof *values);
  for (size_t i = 0; i < n; i++) values[i] = (int32_t)below(20001) - 10000;
  return values;
}

static float *scales(size_t n) {
  float *values = bytes(n * sizeof *values);
  for (size_t i = 0; i < n; i++) values[i] = (float)below(1000) / 1e6f;
  return values;
}

static ert_i8_finish random_finish(ert_i8_result result, bool residual) {
  const int32_t zero = (int32_t)below(256), sum_zero = (int32_t)below(256);
  const int32_t lo = (int32_t)below(100), hi = lo + (int32_t)below(156);
  ert_i8_finish f = {.result = result, .lo = (float)(lo - zero), .hi = (float)(hi - zero), .zero = zero};
  f.twice = residual || below(2);
  f.own = 0.7f, f.other = 0.4f;
  f.other_zero = (int32_t)below(256), f.sum_zero = sum_zero;
  f.sum_lo = (float)(3 - sum_zero), f.sum_hi = (float)(250 - sum_zero);
  return f;
}

/* Ranges of spans, weights outside of which become zero. */
static void ranges_of(const ert_span *spans, size_t n_spans, size_t depth, int32_t *w, size_t blocks,
                      ert_i8_range *ranges) {
  size_t end = 0;
  for (size_t b = 0; b < blocks; b++) {
    const size_t first = b * n_spans / blocks;
    size_t begin = 0, stop = 0;
    end = first + 1 + below(2) > end ? first + 1 + below(2) : end;
    end = end < n_spans ? end : n_spans;
    for (size_t i = 0; i < end; i++) begin += i < first ? spans[i].count : 0, stop += spans[i].count;
    ranges[b] = (ert_i8_range){first, end, (ptrdiff_t)begin};
    memset(w + b * depth * 4, 0, begin * 16);
    memset(w + (b * depth + stop) * 4, 0, (depth - stop) * 16);
  }
}

static void dense_case(const ert_i8 *scalar, const ert_i8 *table) {
  ert_span spans[4];
  const size_t n_spans = below(5), pixel = 1 + below(40);
  size_t depth = 0, reach = 0;
  for (size_t i = 0; i < n_spans; i++) {
    spans[i] = (ert_span){(ptrdiff_t)below(50), 4 * (1 + below(12)), 0};
    depth += spans[i].count;
    if ((size_t)spans[i].offset + spans[i].count > reach) reach = (size_t)spans[i].offset + spans[i].count;
  }
  const size_t rows = 1 + below(3), pixels = 1 + below(30), blocks = 1 + below(9), row = pixel * pixels + below(9);
  const ert_i8_result result = below(2) ? ERT_I8_BYTES : below(2) ? ERT_I8_FLOATS : ERT_I8_SUMS;
  const size_t size = result == ERT_I8_BYTES ? 1 : 4, outputs = rows * pixels * blocks * 16 * size;
  const bool inside = below(2); /* outputs by blocks, or blocks side by side in each pixel */
  uint8_t *x = bytes(rows * row + reach), *residual = bytes(outputs), *want = bytes(outputs), *got = bytes(outputs);
  int32_t *w = bytes(blocks * depth * 16), *bias = biases(blocks * 16);
  float *scale = scales(blocks * 16), *offset = scales(blocks * 16);
  ert_i8_range ranges[9];
  ert_i8_dense d = {.x = x, .x_pixel = (ptrdiff_t)pixel, .x_row = (ptrdiff_t)row, .spans = spans, .n_spans = n_spans};
  d.w = w, d.w_block = (ptrdiff_t)(depth * 4);
  if (below(2)) ranges_of(spans, n_spans, depth, w, blocks, ranges), d.ranges = ranges;
  d.bias = bias, d.scale = scale, d.offset = offset;
  d.y_pixel = (ptrdiff_t)((inside ? blocks : 1) * 16 * size);
  d.y_row = (ptrdiff_t)pixels * d.y_pixel;
  d.y_block = (ptrdiff_t)((inside ? 1 : rows * pixels) * 16 * size);
  d.residual = result == ERT_I8_BYTES && below(2) ? residual : NULL;
  d.residual_row = (ptrdiff_t)pixels * 16, d.residual_block = (ptrdiff_t)(rows * pixels) * 16;
  d.rows = rows, d.pixels = pixels, d.blocks = blocks;
  d.finish = random_finish(result, d.residual != NULL);
  d.y = want, scalar->dense(&d);
  d.y = got, table->dense(&d);
  CHECK(memcmp(got, want, outputs) == 0);
  free(x), free(residual), free(want), free(got), free(w), free(bias), free(scale), free(offset);
}

static void depthwise_case(const ert_i8 *scalar, const ert_i8 *table) {
  ptrdiff_t lines[5];
  const size_t rows = 1 + below(3), pixels = 1 + below(30), n_lines = 1 + below(5), quads = 1 + below(3);
  const size_t stride = 1 + below(3), width = (pixels - 1) * stride + 4 * quads;
  const ert_i8_result result = below(2) ? ERT_I8_BYTES : below(2) ? ERT_I8_FLOATS : ERT_I8_SUMS;
  const size_t outputs = rows * pixels * 16 * (result == ERT_I8_BYTES ? 1 : 4);
  for (size_t i = 0; i < n_lines; i++) lines[i] = (ptrdiff_t)(i * width * 16);
  uint8_t *x = bytes((rows + n_lines - 1) * width * 16), *residual = bytes(outputs);
  uint8_t *want = bytes(outputs), *got = bytes(outputs);
  int32_t *w = bytes(n_lines * quads * 16 * sizeof *w), *bias = biases(16);
  float *scale = scales(16), *offset = scales(16);
  ert_i8_depthwise d = {.x = x, .x_pixel = (ptrdiff_t)stride * 16, .x_row = (ptrdiff_t)width * 16, .lines = lines};
  d.n_lines = n_lines, d.quads = quads;
  d.w = w, d.bias = bias, d.scale = scale, d.offset = offset;
  d.y_row = (ptrdiff_t)(outputs / rows), d.residual_row = (ptrdiff_t)pixels * 16;
  d.residual = result == ERT_I8_BYTES && below(2) ? residual : NULL;
  d.rows = rows, d.pixels = pixels;
  d.finish = random_finish(result, d.residual != NULL);
  d.y = want, scalar->depthwise(&d);
  d.y = got, table->depthwise(&d);
  CHECK(memcmp(got, want, outputs) == 0);
  free(x), free(residual), free(want), free(got), free(w), free(bias), free(scale), free(offset);
}

static void quantize_case(const ert_i8 *scalar, const ert_i8 *table) {
  static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 0.125f, -0.375f, 1e-40f};
  const size_t n = below(100);
  const float scale = below(2) ? 0.25f : 0.037f;
  const int32_t zero = (int32_t)below(256);
  float *x = bytes(n * sizeof *x), *floats = bytes(n * sizeof *x), *same = bytes(n * sizeof *x);
  uint8_t *want = bytes(n), *got = bytes(n);
  for (size_t i = 0; i < n; i++)
    x[i] = below(4) ? (float)(int32_t)(below(10001) - 5000) / 64.0f : special[below(sizeof special / sizeof *special)];
  scalar->quantize(x, scale, zero, want, n);
  table->quantize(x, scale, zero, got, n);
  CHECK(memcmp(got, want, n) == 0);
  scalar->dequantize(want, scale, zero, floats, n);
  table->dequantize(want, scale, zero, same, n);
  CHECK(memcmp(floats, same, n * sizeof *floats) == 0);
  free(x), free(floats), free(same), free(want), free(got);
}

static void lookup_case(const ert_i8 *scalar, const ert_i8 *table) {
  const size_t n = below(300);
  uint8_t *x = bytes(n), *places = bytes(256), *want = bytes(n);
  scalar->lookup(places, x, want, n);
  table->lookup(places, x, x, n);
  CHECK(memcmp(x, want, n) == 0);
  free(x), free(places), free(want);
}

static void binary_case(const ert_i8 *scalar, const ert_i8 *table) {
  const size_t n = 1 + below(100);
  const ert_i8_form form = (ert_i8_form)below(3);
  const int32_t zero = (int32_t)below(256), lo = (int32_t)below(100), hi = lo + (int32_t)below(156);
  const ert_i8_binary pair = {
      .product = below(2),
      .zeros = {(int32_t)below(256), (int32_t)below(256)},
      .scales = {(float)below(1000) / 500.0f, (float)below(1000) / -5000.0f},
      .zero = zero,
      .lo = (float)(lo - zero),
      .hi = (float)(hi - zero),
  };
  uint8_t *a = bytes(n), *b = bytes(form == ERT_I8_SAME ? n : form == ERT_I8_ONE ? 1 : 16);
  uint8_t *want = bytes(n), *got = bytes(n);
  scalar->binary(&pair, form, a, b, want, n);
  table->binary(&pair, form, a, b, got, n);
  CHECK(memcmp(got, want, n) == 0);
  free(a), free(b), free(want), free(got);
}

/* Pixels to rows of quads, and rows of sums to pixels. */
static void planes_case(const ert_i8 *scalar, const ert_i8 *table) {
  const size_t n = 1 + below(70), whole = (n + 15) / 16 * 16, row = whole + below(20), size = 4 * row;
  uint8_t *x = bytes(n * 16), *residual = bytes(256), *want = bytes(256), *got = bytes(256);
  int32_t *rows = calloc(size, sizeof *rows), *same = calloc(size, sizeof *same);
  scalar->split(x, n, rows, (ptrdiff_t)row, 16);
  table->split(x, n, same, (ptrdiff_t)row, 16);
  for (size_t q = 0; q < 4; q++) CHECK(memcmp(rows + q * row, same + q * row, n * sizeof *rows) == 0);
  int32_t *sums = biases(256), *bias = biases(16);
  float *scale = scales(16);
  for (size_t i = 0; i < 16; i++) scale[i] *= 20.0f; /* sums have one term only */
  const bool added = below(2);
  const ert_i8_finish f = random_finish(ERT_I8_BYTES, added);
  scalar->finish_planes(&f, sums, bias, scale, added ? residual : NULL, want);
  table->finish_planes(&f, sums, bias, scale, added ? residual : NULL, got);
  CHECK(memcmp(got, want, 256) == 0);
  free(x), free(residual), free(want), free(got), free(rows), free(same), free(sums), free(bias), free(scale);
}

static void test_table(const char *name, const ert_i8 *table) {
  const ert_i8 *scalar = ert_i8_of(ert_simd_find("scalar"));
  printf("%s\n", name);
  for (int i = 0; i < 500; i++) {
    dense_case(scalar, table);
    depthwise_case(scalar, table);
    quantize_case(scalar, table);
    lookup_case(scalar, table);
    binary_case(scalar, table);
    planes_case(scalar, table);
  }
}

int main(void) {
  for (const ert_simd *const *each = ert_simd_available(); *each; each++) test_table((*each)->name, ert_i8_of(*each));
#if defined(__x86_64__)
  extern const ert_i8 test_i8_vnni_256;
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
    test_table("vnni of 256 bits", &test_i8_vnni_256);
#endif
  return 0;
}
