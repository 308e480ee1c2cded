/* Dense, depthwise and direct inner loops: every instruction set against the scalar specification, over random geometries. */
#include <math.h>

#include "kernels/simd/simd.h"
#include "test.h"

static uint32_t seed = 1;

static size_t below(size_t n) { return next_random(&seed) % n; }

/* Exactly `n` random floats, so that sanitizers see a step beyond. The caller frees them. */
static float *floats(size_t n) {
  float *values = malloc(n * sizeof *values + (n == 0));
  CHECK(values != NULL);
  for (size_t i = 0; i < n; i++) values[i] = (float)next_random(&seed) / 8388608.0f - 1.0f;
  return values;
}

static void expect_close(const float *got, const float *want, size_t n, double terms) {
  for (size_t i = 0; i < n; i++) CHECK(fabs((double)got[i] - (double)want[i]) <= 1e-6 * (terms + 10));
}

static const ert_simd *scalar(void) {
  const ert_simd *found = ert_simd_find("scalar");
  CHECK(found != NULL);
  return found;
}

/* Exactly `n` random weights between -1 and 1, as they are stored. The caller frees them. */
static void *stored(ert_weights weights, size_t n) {
  if (weights == ERT_WEIGHTS_F32) return floats(n);
  uint16_t *values = malloc(n * sizeof *values + (n == 0));
  CHECK(values != NULL);
  const size_t fraction = weights == ERT_WEIGHTS_F16 ? 1024 : 128, most = weights == ERT_WEIGHTS_F16 ? 15 : 127;
  for (size_t i = 0; i < n; i++)
    values[i] = (uint16_t)(below(2) << 15 | ((below(9) ? most - 1 - below(8) : 0) * fraction + below(fraction)));
  return values;
}

static void dense_case(ert_weights weights) {
  const size_t whole = weights == ERT_WEIGHTS_BF16 ? 2 : 1; /* rows that lie together */
  ert_span spans[6];
  const size_t n_spans = below(7), pixel = below(3) ? 16 : 1 + below(40);
  size_t depth = 0, reach = 0;
  for (size_t i = 0; i < n_spans; i++) {
    const size_t chain = ERT_CHAIN - depth % ERT_CHAIN; /* rows to where it ends */
    const size_t skip = below(2) ? 0 : below(3) ? below(chain + 1) / whole * whole : chain;
    spans[i] = (ert_span){(ptrdiff_t)below(50), below(3) ? 16 : below(40) / whole * whole, skip};
    depth += spans[i].skip + spans[i].count;
    if ((size_t)spans[i].offset + spans[i].count > reach) reach = (size_t)spans[i].offset + spans[i].count;
  }
  const size_t rows = 1 + below(3), pixels = 1 + below(30), blocks = 1 + below(13), row = pixel * pixels + below(9);
  const size_t outputs = rows * pixels * blocks * 16;
  void *w = stored(weights, blocks * depth * 16);
  float *x = floats(rows * row + reach), *bias = floats(blocks * 16);
  float *residual = floats(outputs), *want = floats(outputs), *got = floats(outputs);
  ert_dense d = {.x = x, .x_pixel = (ptrdiff_t)pixel, .x_row = (ptrdiff_t)row, .spans = spans, .n_spans = n_spans};
  d.w = w;
  d.w_block = (ptrdiff_t)(depth * 16);
  d.weights = weights;
  d.bias = below(2) ? bias : NULL;
  d.residual = below(2) ? residual : NULL;
  d.y_pixel = 16;
  d.y_row = (ptrdiff_t)pixels * 16;
  d.y_block = (ptrdiff_t)rows * d.y_row;
  d.rows = rows, d.pixels = pixels, d.blocks = blocks;
  d.lo = below(2) ? -0.5f : -INFINITY;
  d.hi = below(2) ? 0.75f : INFINITY;
  d.y = want;
  scalar()->dense(&d);
  d.y = got;
  for (const ert_simd *const *table = ert_simd_available(); *table; table++) {
    (*table)->dense(&d);
    expect_close(got, want, outputs, (double)depth);
  }
  free(x), free(w), free(bias), free(residual), free(want), free(got);
}

/* The same sums in one pass over the weights and in two: not a bit differs. */
static void passes_case(ert_weights weights) {
  enum { UNIT = 16, CHAIN_UNITS = ERT_CHAIN / UNIT, MOST_UNITS = 8 * CHAIN_UNITS };
  ert_span spans[MOST_UNITS];
  const size_t before = CHAIN_UNITS * (1 + below(4)), n_spans = before + below(4 * CHAIN_UNITS), depth = n_spans * UNIT;
  for (size_t i = 0; i < n_spans; i++) {
    const bool skipped = below(4) == 0;
    spans[i] = (ert_span){(ptrdiff_t)below(50), skipped ? 0 : UNIT, skipped ? UNIT : 0};
  }
  const size_t rows = 1 + below(3), pixels = 1 + below(30), blocks = 1 + below(6), row = pixels * UNIT;
  const size_t outputs = rows * pixels * blocks * 16;
  void *w = stored(weights, blocks * depth * 16);
  float *x = floats(rows * row + 50 + UNIT), *bias = floats(blocks * 16), *residual = floats(outputs);
  float *want = floats(outputs), *got = floats(outputs);
  const ert_dense whole = {.x = x,
                           .x_pixel = UNIT,
                           .x_row = (ptrdiff_t)row,
                           .spans = spans,
                           .n_spans = n_spans,
                           .w = w,
                           .w_block = (ptrdiff_t)(depth * 16),
                           .weights = weights,
                           .bias = bias,
                           .y = want,
                           .residual = below(2) ? residual : NULL,
                           .y_pixel = 16,
                           .y_row = (ptrdiff_t)pixels * 16,
                           .y_block = (ptrdiff_t)(rows * pixels) * 16,
                           .rows = rows,
                           .pixels = pixels,
                           .blocks = blocks,
                           .lo = -0.5f,
                           .hi = 0.75f};
  ert_dense first = whole, second = whole;
  first.n_spans = before;
  first.w_pass = (ptrdiff_t)before * UNIT * 16;
  first.y = second.y = got;
  first.residual = NULL;
  first.lo = -INFINITY, first.hi = INFINITY;
  second.spans += before;
  second.n_spans -= before;
  second.w = (const char *)w + first.w_pass * ert_weights_bytes(weights);
  second.w_pass = whole.w_block - first.w_pass;
  second.begun = true;
  second.bias = NULL;
  for (const ert_simd *const *table = ert_simd_available(); *table; table++) {
    (*table)->dense(&whole);
    (*table)->dense(&first);
    (*table)->dense(&second);
    CHECK(memcmp(got, want, outputs * sizeof *got) == 0);
  }
  free(x), free(w), free(bias), free(residual), free(want), free(got);
}

static void depthwise_case(void) {
  ert_depthwise d = {.planes = (int64_t)below(3), .height = 1 + (int64_t)below(9), .width = 1 + (int64_t)below(40)};
  d.kernel_h = 1 + (int64_t)below(5), d.kernel_w = 1 + (int64_t)below(5);
  d.stride_h = 1 + (int64_t)below(3), d.stride_w = 1 + (int64_t)below(3);
  d.dilation_h = 1 + (int64_t)below(3), d.dilation_w = 1 + (int64_t)below(3);
  d.pad_h = (int64_t)below(6), d.pad_w = (int64_t)below(6);
  d.out_width = 1 + (int64_t)below(40);
  d.first = (int64_t)below(3), d.rows = 1 + (int64_t)below(6);
  d.x_row = (ptrdiff_t)d.width * 16;
  d.x_plane = (ptrdiff_t)d.height * d.x_row;
  d.y_row = (ptrdiff_t)d.out_width * 16 + 16 * (ptrdiff_t)below(3); /* what lies between rows must stay as it is */
  const size_t outputs = (size_t)(d.rows * d.y_row);
  float *x = floats((size_t)(d.planes * d.x_plane)), *w = floats((size_t)(d.planes * d.kernel_h * d.kernel_w) * 16);
  float *bias = floats(16), *residual = floats(outputs), *want = floats(outputs), *got = floats(outputs);
  float *before = floats(outputs);
  memcpy(want, before, outputs * sizeof *want);
  d.x = x, d.w = w;
  d.bias = below(2) ? bias : NULL;
  d.residual = below(2) ? residual : NULL;
  d.lo = below(2) ? -0.5f : -INFINITY;
  d.hi = below(2) ? 0.75f : INFINITY;
  d.y = want;
  scalar()->depthwise(&d);
  d.y = got;
  for (const ert_simd *const *table = ert_simd_available(); *table; table++) {
    memcpy(got, before, outputs * sizeof *got);
    (*table)->depthwise(&d);
    expect_close(got, want, outputs, (double)(d.planes * d.kernel_h * d.kernel_w));
  }
  free(x), free(w), free(bias), free(residual), free(want), free(got), free(before);
}

static void direct_case(void) {
  ptrdiff_t taps[40];
  const size_t n_taps = below(40), filters = 1 + below(16), rows = 1 + below(4), pixels = 1 + below(below(2) ? 8 : 90);
  ptrdiff_t reach = 0;
  for (size_t i = 0; i < n_taps; i++) {
    taps[i] = (ptrdiff_t)below(50);
    if (taps[i] > reach) reach = taps[i];
  }
  const size_t row = pixels + below(9), plane = rows * row;
  float *x = floats(rows * row + (size_t)reach + ERT_DIRECT_SLACK), *w = floats(n_taps * 16), *bias = floats(16);
  float *residual = floats(filters * plane), *want = floats(filters * plane), *got = floats(filters * plane);
  ert_direct d = {.x = x, .x_row = (ptrdiff_t)row, .taps = taps, .n_taps = n_taps, .w = w};
  d.bias = below(2) ? bias : NULL;
  d.residual = below(2) ? residual : NULL;
  d.y_filter = d.residual_filter = (ptrdiff_t)plane;
  d.y_row = d.residual_row = (ptrdiff_t)row;
  d.filters = filters, d.rows = rows, d.pixels = pixels;
  d.lo = below(2) ? -0.5f : -INFINITY;
  d.hi = below(2) ? 0.75f : INFINITY;
  d.y = want;
  scalar()->direct(&d);
  for (const ert_simd *const *table = ert_simd_available(); *table; table++) {
    memcpy(got, want, filters * plane * sizeof *got); /* what lies between rows stays */
    for (size_t k = 0; k < filters; k++)
      for (size_t r = 0; r < rows; r++) memset(got + k * plane + r * row, 0, pixels * sizeof *got);
    d.y = got;
    (*table)->direct(&d);
    expect_close(got, want, filters * plane, (double)n_taps);
  }
  free(x), free(w), free(bias), free(residual), free(want), free(got);
}

/* Taps in two passes, the first of whole chains, give the same bits as all at once. */
static void direct_passes_case(void) {
  ptrdiff_t taps[6 * ERT_CHAIN];
  const size_t before = ERT_CHAIN * (1 + below(3)), n_taps = before + 1 + below(3 * ERT_CHAIN);
  const size_t filters = 1 + below(16), rows = 1 + below(4), pixels = 1 + below(60), plane = rows * pixels;
  const size_t row = pixels + below(9), outputs = filters * plane;
  for (size_t i = 0; i < n_taps; i++) taps[i] = (ptrdiff_t)below(50);
  float *x = floats(rows * row + 50 + ERT_DIRECT_SLACK), *w = floats(n_taps * 16), *bias = floats(16);
  float *residual = floats(outputs), *want = floats(outputs), *got = floats(outputs);
  float *sums = floats(16 * rows * ((pixels + 15) / 16 * 16));
  const ert_direct whole = {.x = x,
                            .x_row = (ptrdiff_t)row,
                            .taps = taps,
                            .n_taps = n_taps,
                            .w = w,
                            .bias = below(2) ? bias : NULL,
                            .y = want,
                            .residual = below(2) ? residual : NULL,
                            .y_filter = (ptrdiff_t)plane,
                            .y_row = (ptrdiff_t)pixels,
                            .residual_filter = (ptrdiff_t)plane,
                            .residual_row = (ptrdiff_t)pixels,
                            .filters = filters,
                            .rows = rows,
                            .pixels = pixels,
                            .lo = -0.5f,
                            .hi = 0.75f};
  ert_direct first = whole, second = whole;
  first.sums = second.sums = sums;
  first.y = second.y = got;
  first.n_taps = before;
  first.unfinished = true;
  second.taps += before;
  second.n_taps -= before;
  second.w += before * 16;
  second.begun = true;
  for (const ert_simd *const *table = ert_simd_available(); *table; table++) {
    (*table)->direct(&whole);
    memset(got, 0, outputs * sizeof *got);
    (*table)->direct(&first);
    for (size_t i = 0; i < outputs; i++) CHECK(got[i] == 0); /* sums are not outputs */
    (*table)->direct(&second);
    CHECK(memcmp(want, got, outputs * sizeof *got) == 0);
  }
  free(x), free(w), free(bias), free(residual), free(want), free(got), free(sums);
}

static void dense(void) {
  for (int i = 0; i < 400; i++) dense_case((ert_weights)below(3));
}

static void passes(void) {
  for (int i = 0; i < 300; i++) passes_case((ert_weights)below(3));
}

static void depthwise(void) {
  for (int i = 0; i < 400; i++) depthwise_case();
}

static void direct(void) {
  for (int i = 0; i < 1000; i++) direct_case();
}

static void direct_passes(void) {
  for (int i = 0; i < 300; i++) direct_passes_case();
}

int main(void) {
  RUN(dense);
  RUN(passes);
  RUN(depthwise);
  RUN(direct);
  RUN(direct_passes);
  return 0;
}
