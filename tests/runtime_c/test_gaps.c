/* Every instruction set's sums of gaps against the scalar ones, and no gap read that there is not. */
#include "kernels/simd/simd.h"
#include "test.h"

enum { ROWS = 20, GROUPS = 4, APART = GROUPS + 1, ROUNDS = 600 };

static uint32_t seed = 1;

/* Rows of up to `longest` gaps in memory of exactly their size and `behind` more, so that sanitizers see a step beyond. */
static void check_rows(const ert_simd *table, uint32_t longest, size_t behind) {
  uint8_t counts[ROWS * APART] = {0};
  const size_t rows = 1 + next_random(&seed) % ROWS, groups = 1 + next_random(&seed) % GROUPS;
  size_t bytes = behind;
  for (size_t row = 0; row < rows; row++)
    for (size_t i = 0; i < groups; i++) {
      counts[row * APART + i] = (uint8_t)(next_random(&seed) % (longest + 1));
      bytes += counts[row * APART + i];
    }
  uint8_t *gaps = malloc(bytes > 0 ? bytes : 1);
  CHECK(gaps != NULL);
  for (size_t i = 0; i < bytes; i++) gaps[i] = next_random(&seed) % 4 == 0 ? 255 : (uint8_t)next_random(&seed);
  const ert_gaps g = {gaps, gaps + bytes, counts, APART, groups, rows};
  CHECK(table->sparse_farthest(&g) == ert_simd_find("scalar")->sparse_farthest(&g));
  free(gaps);
}

static void test_gaps(const ert_simd *table) {
  static const uint32_t longest[] = {3, 40, 70, 255};
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++)
      check_rows(table, longest[i], round % 2 == 0 ? 0 : next_random(&seed) % 200);
}

int main(void) {
  for (const ert_simd *const *each = ert_simd_available(); *each; each++) {
    printf("%s\n", (*each)->name);
    test_gaps(*each);
  }
  return 0;
}
