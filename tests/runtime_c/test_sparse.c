/* What sparse kernels promise beside their results: every worker gets as many non-zeros, not as many filters, where they
 * share a step by filters, and what ends within a vector is not read beyond its end: by conv_direct neither, which reads
 * whole vectors in place. */
#include "base/alloc.h"
#include "base/kernel.h"
#include "base/room.h"
#include "kernels/simd/simd.h"
#include "test.h"

enum { INPUTS = 512, FILTERS = 1024, FULL = 128, ROWS = 4, TILE = 128, PIXELS = 16, WORKERS = 2 };

/* Non-zeros of a filter: the first eighth of the filters has half of them all. */
static int64_t entries_of(int64_t filter) { return filter < FULL ? INPUTS : INPUTS / 7; }

static ert_tensor tensor_of(edgert_dtype dtype, void *data, size_t element, uint8_t rank, const int64_t *shape) {
  ert_tensor t = {.data = data,
                  .name = "t",
                  .elements = 1,
                  .rank = rank,
                  .dtype = (uint8_t)dtype,
                  .constant = true,
                  .compact = true};
  for (uint8_t i = 0; i < rank; i++) {
    t.shape[i] = t.whole[i] = shape[i];
    t.elements *= shape[i];
  }
  t.bytes = (size_t)t.elements * element;
  return t;
}

/* Prepares the step for so many workers and runs the tasks of the first one. */
static void run_first(ert_step *step, const ert_simd *simd, uint32_t workers) {
  ert_room room = {.count = 0};
  ert_prepare prepare = {.step = step, .room = &room, .simd = simd, .workers = workers};
  CHECK(step->kernel && simd && step->kernel->prepare(&prepare) == EDGERT_OK);
  CHECK(step->tasks >= workers && step->tasks % workers == 0);
  void *scratch;
  CHECK(ert_allocate(step->scratch_bytes, "scratch", &scratch) == EDGERT_OK);
  step->kernel->run(step, 0, step->tasks / workers, scratch);
  ert_free(scratch);
  ert_room_close(&room);
}

/* What share of the non-zeros the first of two workers takes. */
static double share_of_first(ert_step *step, const float *y, int64_t stride) {
  run_first(step, ert_simd_find("scalar"), WORKERS);
  double own = 0, all = 0;
  for (int64_t k = 0; k < FILTERS; k++) {
    if (y[k * stride] != 0) own += (double)entries_of(k);
    all += (double)entries_of(k);
  }
  return own / all;
}

/* Every weight is one, and every input, so that an output that is computed is not zero. */
static float values[FILTERS * INPUTS], x[INPUTS * PIXELS], y[FILTERS * PIXELS];
static uint8_t indices[FILTERS * INPUTS], conv_counts[INPUTS / TILE * FILTERS];
static uint16_t counts[FILTERS];
static int32_t starts[INPUTS / TILE * FILTERS / 16];

/* A convolution of one tap, in tiles of TILE channels. */
static ert_step pointwise(const ert_tensor **in, ert_tensor **out) {
  static const int64_t ones[] = {1, 1}, none[] = {0, 0, 0, 0}, tile = TILE;
  static const ert_attribute attributes[] = {
      {.name = "channels", .ints = &tile, .n_ints = 1, .text = ""},
      {.name = "dilations", .ints = ones, .n_ints = 2, .text = ""},
      {.name = "group", .ints = ones, .n_ints = 1, .text = ""},
      {.name = "kernel", .ints = ones, .n_ints = 2, .text = ""},
      {.name = "pads", .ints = none, .n_ints = 4, .text = ""},
      {.name = "rows", .ints = ones, .n_ints = 1, .text = ""},
      {.name = "strides", .ints = ones, .n_ints = 2, .text = ""},
      {.name = "together", .ints = ones, .n_ints = 1, .text = ""},
  };
  return (ert_step){.kernel = ert_kernel_find("conv_sparse"),
                    .in = in,
                    .out = out,
                    .attributes = attributes,
                    .n_in = 5,
                    .n_out = 1,
                    .n_attributes = 8,
                    .node = "test"};
}

static void test_convolutions(void) {
  const int64_t tiles = INPUTS / TILE;
  int64_t n = 0;
  for (int64_t tile = 0; tile < tiles; tile++)
    for (int64_t k = 0; k < FILTERS; k++) {
      if (k % 16 == 0) starts[tile * (FILTERS / 16) + k / 16] = (int32_t)n;
      const int64_t count = entries_of(k) / tiles;
      conv_counts[tile * FILTERS + k] = (uint8_t)count;
      for (int64_t i = 0; i < count; i++) indices[n++] = (uint8_t)i;
    }
  memset(y, 0, sizeof y);
  ert_tensor operands[] = {
      tensor_of(EDGERT_F32, x, 4, 4, (const int64_t[]){1, INPUTS, 4, 4}),
      tensor_of(EDGERT_F32, values, 4, 1, &n),
      tensor_of(EDGERT_U8, indices, 1, 1, &n),
      tensor_of(EDGERT_U8, conv_counts, 1, 3, (const int64_t[]){tiles, FILTERS, 1}),
      tensor_of(EDGERT_I32, starts, 4, 2, (const int64_t[]){tiles, FILTERS / 16}),
      tensor_of(EDGERT_F32, y, 4, 4, (const int64_t[]){1, FILTERS, 4, 4}),
  };
  const ert_tensor *in[] = {&operands[0], &operands[1], &operands[2], &operands[3], &operands[4]};
  ert_tensor *out[] = {&operands[5]};
  ert_step step = pointwise(in, out);
  const double share = share_of_first(&step, y, PIXELS);
  CHECK(share > 0.45 && share < 0.55);
}

static void test_matrices(void) {
  int64_t n = 0;
  for (int64_t k = 0; k < FILTERS; k++) {
    if (k % 16 == 0) starts[k / 16] = (int32_t)n;
    counts[k] = (uint16_t)entries_of(k);
    for (int64_t i = 0; i < entries_of(k); i++) indices[n++] = i > 0;
  }
  memset(y, 0, sizeof y);
  ert_tensor operands[] = {
      tensor_of(EDGERT_F32, x, 4, 2, (const int64_t[]){ROWS, INPUTS}),
      tensor_of(EDGERT_F32, values, 4, 1, &n),
      tensor_of(EDGERT_U8, indices, 1, 1, &n),
      tensor_of(EDGERT_U16, counts, 2, 2, (const int64_t[]){1, FILTERS}),
      tensor_of(EDGERT_I32, starts, 4, 2, (const int64_t[]){1, FILTERS / 16}),
      tensor_of(EDGERT_F32, y, 4, 2, (const int64_t[]){ROWS, FILTERS}),
  };
  const ert_tensor *in[] = {&operands[0], &operands[1], &operands[2], &operands[3], &operands[4]};
  ert_tensor *out[] = {&operands[5]};
  ert_step step = {
      .kernel = ert_kernel_find("linear_sparse"), .in = in, .out = out, .n_in = 5, .n_out = 1, .node = "test"};
  const double share = share_of_first(&step, y, 1);
  CHECK(share > 0.45 && share < 0.55);
}

/* A few pixels of each channel of a larger tensor, of which there is no more than the view reaches: for sanitizers. */
static void test_end_of_view(void) {
  enum { CHANNELS = 3, SEEN = 4, WHOLE = 16, REACH = (CHANNELS - 1) * WHOLE + SEEN };
  const file memory = copy_bytes(x, REACH * sizeof *x);
  const int64_t n = CHANNELS;
  for (int64_t i = 0; i < n; i++) indices[i] = (uint8_t)i;
  conv_counts[0] = CHANNELS;
  starts[0] = 0;
  ert_tensor operands[] = {
      tensor_of(EDGERT_F32, memory.data, 4, 4, (const int64_t[]){1, CHANNELS, 1, SEEN}),
      tensor_of(EDGERT_F32, values, 4, 1, &n),
      tensor_of(EDGERT_U8, indices, 1, 1, &n),
      tensor_of(EDGERT_U8, conv_counts, 1, 3, (const int64_t[]){1, 1, 1}),
      tensor_of(EDGERT_I32, starts, 4, 2, (const int64_t[]){1, 1}),
      tensor_of(EDGERT_F32, y, 4, 4, (const int64_t[]){1, 1, 1, SEEN}),
  };
  operands[0].whole[3] = WHOLE;
  operands[0].compact = false;
  const ert_tensor *in[] = {&operands[0], &operands[1], &operands[2], &operands[3], &operands[4]};
  ert_tensor *out[] = {&operands[5]};
  for (const ert_simd *const *simd = ert_simd_available(); *simd; simd++) {
    ert_step step = pointwise(in, out);
    run_first(&step, *simd, 1);
    for (int k = 0; k < SEEN; k++) CHECK(y[k] == (float)n);
    memset(y, 0, sizeof y);
  }
  free(memory.data);
}

/* The same for conv_direct: `seen` pixels, copied if they end within a vector, or the first-level cache is to keep them. */
static void check_direct(int64_t seen, bool in_place) {
  enum { CHANNELS = 3, WHOLE = 32 };
  static const int64_t ones[] = {1, 1}, none[] = {0, 0, 0, 0};
  static const ert_attribute attributes[] = {
      {.name = "dilations", .ints = ones, .n_ints = 2, .text = ""},
      {.name = "group", .ints = ones, .n_ints = 1, .text = ""},
      {.name = "pads", .ints = none, .n_ints = 4, .text = ""},
      {.name = "strides", .ints = ones, .n_ints = 2, .text = ""},
  };
  const file memory = copy_bytes(x, (size_t)((CHANNELS - 1) * WHOLE + seen) * sizeof *x);
  ert_tensor operands[] = {
      tensor_of(EDGERT_F32, memory.data, 4, 4, (const int64_t[]){1, CHANNELS, 1, seen}),
      tensor_of(EDGERT_F32, values, 4, 5, (const int64_t[]){1, 1, CHANNELS, 1, 1}),
      tensor_of(EDGERT_F32, y, 4, 4, (const int64_t[]){1, 1, 1, seen}),
  };
  operands[0].whole[3] = WHOLE;
  operands[0].compact = false;
  operands[1].layout = ERT_LAYOUT_WEIGHT16;
  const ert_tensor *in[] = {&operands[0], &operands[1]};
  ert_tensor *out[] = {&operands[2]};
  for (const ert_simd *const *simd = ert_simd_available(); *simd; simd++) {
    ert_step step = {.kernel = ert_kernel_find("conv_direct"),
                     .in = in,
                     .out = out,
                     .attributes = attributes,
                     .n_in = 2,
                     .n_out = 1,
                     .n_attributes = 4,
                     .node = "test"};
    run_first(&step, *simd, 1);
    CHECK((step.scratch_bytes == 0) == (in_place && (*simd)->direct_pass == 0));
    for (int64_t k = 0; k < seen; k++) CHECK(y[k] == (float)CHANNELS);
    memset(y, 0, sizeof y);
  }
  free(memory.data);
}

static void test_direct_to_the_end(void) {
  check_direct(4, false);
  check_direct(20, false);
  check_direct(16, true);
}

int main(void) {
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) values[i] = 1;
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 1;
  RUN(test_convolutions);
  RUN(test_matrices);
  RUN(test_end_of_view);
  RUN(test_direct_to_the_end);
  return 0;
}
