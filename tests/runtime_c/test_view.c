/* Views in every layout, against the positions that the format gives each element. */
#include "session/view.h"

#include <string.h>

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
  CHECK(ert_tensor_size(t.dtype, t.layout, t.rank, t.whole, NULL, &elements, &whole));
  if (elements > MOST_ELEMENTS) return;
  cut(seed, &t, begin);
  CHECK(ert_tensor_size(t.dtype, t.layout, t.rank, t.shape, NULL, &t.elements, &t.bytes));
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
  for (int layout = 0; layout < ERT_LAYOUT_PLANES; layout++) {
    uint32_t compact = 0, gaps = 0;
    for (int i = 0; i < 3000; i++) agrees(&seed, (ert_layout)layout, &compact, &gaps);
    printf("  %s: %u compact, %u with gaps\n", ert_layout_name((uint8_t)layout), compact, gaps);
    CHECK(compact > 100 && (gaps > 100 || layout == ERT_LAYOUT_DEPTH16)); /* blocks of DEPTH16 are neighbours */
  }
}

/* Runs of planes, whose halos are theirs: compact, and where the format says. */
static void views_of_planes(void) {
  uint32_t seed = 11, with_halo = 0;
  for (int i = 0; i < 1000; i++) {
    ert_tensor root = {.layout = ERT_LAYOUT_PLANES, .dtype = EDGERT_F16, .rank = (uint8_t)(2 + next_random(&seed) % 3)};
    int64_t plane = 1;
    for (uint32_t d = 0; d < root.rank; d++) root.whole[d] = d == 0 ? 1 : next_random(&seed) % 9;
    const bool halo = root.rank == 4 && next_random(&seed) % 4;
    if (halo) {
      for (uint32_t k = 0; k < 4; k++) root.halo[k] = next_random(&seed) % 3;
      root.halo[i % 4]++;
    }
    for (uint32_t d = 2; d < root.rank; d++) plane *= root.whole[d];
    if (halo) {
      int64_t pitch = root.halo[1] + root.whole[3] + root.halo[3];
      while (pitch % 4) pitch++;
      plane = pitch * (root.halo[0] + root.whole[2] + root.halo[2]);
    }
    size_t whole;
    CHECK(ert_tensor_size(root.dtype, root.layout, root.rank, root.whole, halo ? root.halo : NULL, &root.elements,
                          &whole));
    CHECK(whole == (root.elements ? (size_t)(root.whole[1] * plane * 2) : 0));
    ert_tensor view = root;
    memcpy(view.shape, root.whole, sizeof view.shape);
    int64_t begin[ERT_MAX_RANK] = {0, next_random(&seed) % (root.whole[1] + 1)};
    view.shape[1] = next_random(&seed) % (root.whole[1] - begin[1] + 1);
    CHECK(ert_tensor_size(view.dtype, view.layout, view.rank, view.shape, halo ? view.halo : NULL, &view.elements,
                          &view.bytes));
    CHECK(ert_view_compact(&view));
    if (view.elements == 0) continue;
    CHECK(ert_view_at(&view, begin) == (size_t)(begin[1] * plane * 2));
    CHECK(view.bytes == (size_t)(view.shape[1] * plane * 2));
    with_halo += halo;
  }
  CHECK(with_halo > 100);
}

/* Sizes that no file may ask for. */
static void sizes_of_planes(void) {
  const int64_t shape[] = {1, 3, 5, 6}, wide[] = {1, 1, 1, (int64_t)1 << 48}, none[] = {1, 0, (int64_t)1 << 46, 1};
  const uint32_t halo[4] = {1, 2, 0, 1}, most[4] = {65535, 65535, 65535, 65535};
  int64_t elements;
  size_t bytes;
  CHECK(ert_tensor_size(EDGERT_F32, ERT_LAYOUT_PLANES, 4, shape, halo, &elements, &bytes));
  CHECK(elements == 90 && bytes == 3 * 6 * 12 * 4);
  CHECK(ert_tensor_size(EDGERT_F32, ERT_LAYOUT_PLANES, 4, shape, most, &elements, &bytes));
  CHECK(bytes == (size_t)3 * 131075 * 131076 * 4);
  CHECK(!ert_tensor_size(EDGERT_F32, ERT_LAYOUT_PLANES, 3, shape, halo, &elements, &bytes));
  CHECK(!ert_tensor_size(EDGERT_U8, ERT_LAYOUT_PLANES, 4, wide, halo, &elements, &bytes));
  CHECK(ert_tensor_size(EDGERT_U8, ERT_LAYOUT_PLANES, 4, wide, NULL, &elements, &bytes));
  CHECK(!ert_tensor_size(EDGERT_U8, ERT_LAYOUT_PLANES, 4, none, halo, &elements, &bytes));
}

int main(void) {
  RUN(random_views);
  RUN(views_of_planes);
  RUN(sizes_of_planes);
  return 0;
}
