/* Views in every layout, against the positions that the format gives each element. */
#include "session/view.h"

#include "base/dtype.h"
#include "test.h"

enum { MOST_ELEMENTS = 1 << 16 };

/* Where an element lies in a tensor of `shape`, in elements: docs/format.md, Layouts. */
static int64_t position(ert_layout layout, uint32_t rank, const int64_t *shape, const int64_t *index) {
  uint32_t axis = layout == ERT_LAYOUT_WEIGHT16 ? 2 : layout == ERT_LAYOUT_DEPTH16 ? 0 : rank > 1 ? 1 : 0;
  int64_t inner = 0, extent = 1; /* over the dimensions behind the channels */
  for (uint32_t i = axis + 1; i < rank; i++) {
    inner = inner * shape[i] + index[i];
    extent *= shape[i];
  }
  int64_t c = index[axis], channels = shape[axis];
  switch (layout) {
    case ERT_LAYOUT_PLANAR: {
      int64_t at = 0;
      for (uint32_t i = 0; i < rank; i++) at = at * shape[i] + index[i];
      return at;
    }
    case ERT_LAYOUT_BLOCK16:
      if (rank == 1) return c;
      return ((index[0] * ((channels + 15) / 16) + c / 16) * extent + inner) * 16 + c % 16;
    case ERT_LAYOUT_WEIGHT16: {
      int64_t k = index[1], left = channels - c / 16 * 16, b = left < 16 ? left : 16;
      return (index[0] * ((shape[1] + 15) / 16) + k / 16) * 16 * channels * extent + 256 * extent * (c / 16) +
             (inner * b + c % 16) * 16 + k % 16;
    }
    default:
      return (c / 16 * extent + inner) * 16 + c % 16;
  }
}

/* Counts the index up; false past the last. */
static bool next(uint32_t rank, const int64_t *shape, int64_t *index) {
  for (uint32_t i = rank; i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

/* Whether dimension i is cut in blocks; and whether views have to be whole there. */
static bool blocked(ert_layout layout, uint32_t rank, uint32_t i) {
  if (layout == ERT_LAYOUT_WEIGHT16) return i == 1 || i == 2;
  return layout != ERT_LAYOUT_PLANAR && i == (layout == ERT_LAYOUT_DEPTH16 || rank == 1 ? 0 : 1);
}

static bool fixed(ert_layout layout, uint32_t i) {
  return layout == ERT_LAYOUT_WEIGHT16 ? i > 2 : layout == ERT_LAYOUT_DEPTH16 && i > 0;
}

/* A random box that the format allows. */
static void cut(uint32_t *seed, ert_tensor *t, int64_t *begin) {
  for (uint32_t i = 0; i < t->rank; i++) {
    int64_t n = t->whole[i], unit = blocked((ert_layout)t->layout, t->rank, i) ? 16 : 1, most = (n + unit - 1) / unit;
    int64_t a = next_random(seed) % (uint32_t)(most + 1), b = next_random(seed) % (uint32_t)(most + 1);
    if (fixed((ert_layout)t->layout, i) || next_random(seed) % 2) a = 0, b = most;
    if (a > b) a ^= b, b ^= a, a ^= b;
    if (a == b && next_random(seed) % 8) a = 0, b = most;
    begin[i] = a * unit < n ? a * unit : n;
    t->shape[i] = (b * unit < n ? b * unit : n) - begin[i];
  }
}

static void agrees(uint32_t *seed, ert_layout layout, uint32_t *compact, uint32_t *gaps) {
  static const uint32_t least_rank[] = {0, 1, 3, 1};
  ert_tensor t = {.layout = (uint8_t)layout, .dtype = EDGERT_F32};
  int64_t begin[ERT_MAX_RANK] = {0}, index[ERT_MAX_RANK] = {0}, at[ERT_MAX_RANK] = {0}, elements;
  t.rank = (uint8_t)(least_rank[layout] + next_random(seed) % 4);
  for (uint32_t i = 0; i < t.rank; i++) t.whole[i] = 1 + next_random(seed) % (blocked(layout, t.rank, i) ? 40 : 4);
  size_t whole;
  CHECK(ert_tensor_size(t.dtype, t.layout, t.rank, t.whole, &elements, &whole));
  if (elements > MOST_ELEMENTS) return;
  cut(seed, &t, begin);
  CHECK(ert_tensor_size(t.dtype, t.layout, t.rank, t.shape, &t.elements, &t.bytes));
  bool found = ert_view_compact(&t);
  if (t.elements == 0) {
    CHECK(found && ert_view_at(&t, begin) == 0);
    return;
  }
  int64_t first = position(layout, t.rank, t.whole, begin);
  CHECK(ert_view_at(&t, begin) == (size_t)first * 4);
  bool same = true; /* as in a tensor of the view's shape */
  do {
    for (uint32_t i = 0; i < t.rank; i++) at[i] = begin[i] + index[i];
    same &= position(layout, t.rank, t.whole, at) - first == position(layout, t.rank, t.shape, index);
  } while (next(t.rank, t.shape, index));
  CHECK(found == same);
  *(same ? compact : gaps) += 1;
}

static void random_views(void) {
  uint32_t seed = 7;
  for (int layout = 0; layout < ERT_LAYOUT_COUNT; layout++) {
    uint32_t compact = 0, gaps = 0;
    for (int i = 0; i < 3000; i++) agrees(&seed, (ert_layout)layout, &compact, &gaps);
    printf("  %s: %u compact, %u with gaps\n", ert_layout_name((uint8_t)layout), compact, gaps);
    CHECK(compact > 100 && (gaps > 100 || layout == ERT_LAYOUT_DEPTH16)); /* blocks of DEPTH16 are neighbours */
  }
}

int main(void) {
  RUN(random_views);
  return 0;
}
