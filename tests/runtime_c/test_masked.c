/* Every instruction set's products with matrices that have a bit for every weight, against the scalar ones: the same bits
 * for rows alone and together, whatever the masks hold, and no more values read than they could tell of. */
#include <math.h>

#include "kernels/simd/simd.h"
#include "test.h"

enum { DEEPEST = 83, GROUPS = (DEEPEST + 15) / 16, ROUNDS = 40 };

static const ert_simd *table, *scalar;
static uint32_t seed = 1;

static float number(void) { return (float)(int32_t)(next_random(&seed) % 2001) / 500.0f - 2.0f; }

/* n finite values in memory of exactly that size, so that sanitizers see a step beyond. The caller frees it. */
static char *new_values(ert_weights weights, size_t n) {
  char *values = malloc(n > 0 ? n * (size_t)ert_weights_bytes(weights) : 1);
  CHECK(values != NULL);
  for (size_t i = 0; i < n; i++) {
    const float f32 = number();
    const uint16_t half = (uint16_t)((weights == ERT_WEIGHTS_F16 ? 0x3800u : 0x3f00u) | (next_random(&seed) & 0x80ff));
    if (weights == ERT_WEIGHTS_F32)
      memcpy(values + 4 * i, &f32, sizeof f32);
    else
      memcpy(values + 2 * i, &half, sizeof half);
  }
  return values;
}

/* All bits, half of them, or a quarter. */
static void fill_masks(uint16_t *masks, size_t groups, int manner) {
  for (size_t i = 0; i < groups * 4; i++) {
    const uint32_t random = next_random(&seed);
    masks[i] = (uint16_t)(manner == 0 ? 0xffff : manner == 1 ? random : random & next_random(&seed));
  }
}

static void check_depth(size_t depth, ert_weights weights, int manner) {
  const size_t groups = (depth + 15) / 16;
  char *values = new_values(weights, groups * 64);
  uint16_t masks[GROUPS * 4];
  float *x = malloc((depth ? depth : 1) * 4 * sizeof *x);
  CHECK(x != NULL);
  for (size_t i = 0; i < 4 * depth; i++) x[i] = number();
  fill_masks(masks, groups, manner);
  ert_masked want = {.x = {x, x + depth, x + 2 * depth, x + 3 * depth},
                     .lanes = 4,
                     .depth = depth,
                     .values = values,
                     .weights = weights,
                     .masks = masks,
                     .group = 4};
  for (int i = 0; i < 16; i++) want.sums[i / 4][i % 4] = number();
  ert_masked got = want, one = want;
  scalar->masked(&want);
  table->masked(&got);
  one.lanes = 1;
  for (int row = 0; row < 4; row++) {
    one.x[0] = x + (size_t)row * depth;
    memcpy(one.sums[0], one.sums[row], sizeof one.sums[0]);
    table->masked(&one);
    for (int k = 0; k < 4; k++) {
      CHECK(fabsf(got.sums[row][k] - want.sums[row][k]) <= 1e-4f);
      CHECK(one.sums[0][k] == got.sums[row][k]);
    }
  }
  free(values), free(x);
}

static void test_masked(void) {
  static const ert_weights every[] = {ERT_WEIGHTS_F32, ERT_WEIGHTS_F16, ERT_WEIGHTS_BF16};
  for (int i = 0; i < 3; i++)
    for (size_t depth = 0; depth <= DEEPEST; depth++)
      for (int round = 0; round < ROUNDS; round++) check_depth(depth, every[i], round % 3);
}

int main(void) {
  scalar = ert_simd_find("scalar");
  CHECK(scalar != NULL);
  for (const ert_simd *const *each = ert_simd_available(); *each; each++) {
    table = *each;
    printf("%s\n", table->name);
    RUN(test_masked);
  }
  return 0;
}
