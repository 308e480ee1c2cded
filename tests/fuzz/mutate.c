/* Makes hostile bundles out of good ones. */
#include "mutate.h"

#include <math.h>

#include "change.h"

uint64_t roll(dice *d) {
  d->state += 0x9e3779b97f4a7c15u;
  uint64_t x = d->state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t below(dice *d, uint64_t n) { return n ? roll(d) % n : 0; }

bool one_in(dice *d, uint64_t n) { return below(d, n) == 0; }

uint64_t odd_integer(dice *d, uint32_t bytes) {
  static const int64_t odd[] = {0,
                                1,
                                2,
                                3,
                                4,
                                5,
                                7,
                                8,
                                15,
                                16,
                                17,
                                31,
                                32,
                                33,
                                63,
                                64,
                                65,
                                127,
                                128,
                                255,
                                256,
                                1000,
                                65535,
                                65536,
                                -1,
                                -2,
                                -3,
                                -7,
                                -8,
                                -16,
                                INT32_MAX,
                                INT32_MIN,
                                INT64_MAX,
                                INT64_MIN,
                                UINT32_MAX,
                                1LL << 32,
                                1LL << 40,
                                1LL << 48,
                                1LL << 62,
                                (1LL << 32) + 1,
                                INT64_MAX - 1,
                                INT64_MIN + 1,
                                (1LL << 31) - 16,
                                1LL << 24,
                                1LL << 20,
                                1LL << 15,
                                -(1LL << 32),
                                -(1LL << 48)};
  uint64_t x = one_in(d, 3)   ? below(d, 12)
               : one_in(d, 8) ? roll(d)
                              : (uint64_t)odd[below(d, sizeof odd / sizeof odd[0])];
  return bytes < 8 ? x & ((1ull << (8 * bytes)) - 1) : x;
}

float odd_float(dice *d) {
  static const float odd[] = {0.0f,    -0.0f,    1.0f,   -1.0f, 0.5f,   NAN,           INFINITY, -INFINITY,
                              3.4e38f, -3.4e38f, 1e-40f, 1e10f, -1e10f, 2147483648.0f, 9.3e18f,  16777217.0f};
  return one_in(d, 2) ? odd[below(d, sizeof odd / sizeof odd[0])] : (float)(int64_t)below(d, 4001) / 200 - 10;
}

mutant mutate(const edgert_bundle *seed, const edgert_bundle *donor, dice *d, pool *work) {
  static sites here, there;
  size_t lengths[MOST_SEGMENTS] = {0};
  work->used = 0;
  ert_vector segments = ert_items(seed->root, ERT_FIELD_BUNDLE_SEGMENTS);
  node *root = tree_decode(work, seed->root), *other = tree_decode(work, donor->root);
  if (!root || !other || segments.count > MOST_SEGMENTS) return (mutant){NULL, 0};
  for (uint32_t i = 0; i < segments.count; i++)
    lengths[i] = (size_t)ert_u64(ert_item(segments, i), ERT_FIELD_SEGMENT_LENGTH, 0);
  there.count = 0;
  collect(&there, other, d);
  uint64_t changes = one_in(d, 64) ? 0 : 1 + below(d, one_in(d, 4) ? 6 : 2);
  for (; changes > 0; changes--) {
    here.count = 0;
    collect(&here, root, d); /* anew, as lists may have changed */
    if (here.count == 0 || there.count == 0) break;
    switch (below(d, 10)) {
      case 0:
      case 1:
        change_extent(&here, d);
        break;
      case 2:
        change_type(&here, d);
        break;
      case 3:
        move_to_arena(root, d);
        break;
      case 4:
        cut_operands(root, d, work);
        break;
      case 5:
        deal_out(root, d);
        break;
      default:
        change_field(pick(&here, d), &here, &there, d, work);
        break;
    }
  }
  patch code = {.count = 0};
  if (one_in(d, 2)) code = change_code(root, seed, donor, lengths, d, work);
  if (!one_in(d, 4)) follow_roots(root, work);
  if (!one_in(d, 4)) make_room(root, lengths, segments.count);
  return assemble(root, seed, lengths, &code, d, work);
}
