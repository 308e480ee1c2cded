/* The file of a mutant: room for its tensors, segments, metadata, digest. */
#include "change.h"

#include <stdlib.h>
#include <string.h>

#include "../runtime_c/sign.h"
#include "base/dtype.h"

enum { MOST_BYTES = 1 << 20, MOST_EXTENT = 1 << 18 };

void make_room(node *root, size_t *lengths, uint32_t segments) {
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  for (uint32_t p = 0; p < programs->count; p++) {
    node *program = &programs->items[p], *tensors = tree_field(program, ERT_FIELD_PROGRAM_TENSORS);
    node *arena = tree_field(program, ERT_FIELD_PROGRAM_ARENA_BYTES);
    node *device = tree_field(program, ERT_FIELD_PROGRAM_DEVICE_BYTES);
    for (uint32_t i = 0; i < tensors->count; i++) {
      node *t = &tensors->items[i], *shape = tree_field(t, ERT_FIELD_TENSOR_SHAPE);
      const node *halo = tree_field(t, ERT_FIELD_TENSOR_HALO);
      uint64_t dtype = tree_field(t, ERT_FIELD_TENSOR_DTYPE)->scalar,
               layout = tree_field(t, ERT_FIELD_TENSOR_LAYOUT)->scalar;
      uint64_t place = tree_field(t, ERT_FIELD_TENSOR_PLACE)->scalar,
               offset = tree_field(t, ERT_FIELD_TENSOR_OFFSET)->scalar;
      uint64_t index = tree_field(t, ERT_FIELD_TENSOR_INDEX)->scalar;
      int64_t extents[ERT_MAX_RANK], elements;
      size_t bytes;
      if (shape->count > ERT_MAX_RANK) continue;
      memcpy(extents, shape->bytes, shape->count * sizeof *extents);
      uint32_t sides[4];
      if (halo->count == 4) memcpy(sides, halo->bytes, sizeof sides);
      if (!ert_tensor_size((uint8_t)dtype, (uint8_t)layout, shape->count, extents, halo->count == 4 ? sides : NULL,
                           &elements, &bytes))
        continue;
      if (bytes > MOST_EXTENT || offset > MOST_EXTENT) continue;
      if (place == ERT_PLACE_ARENA && offset + bytes > arena->scalar) set_scalar(arena, offset + bytes);
      if (place == ERT_PLACE_DEVICE && offset + bytes > device->scalar) set_scalar(device, offset + bytes);
      if (place == ERT_PLACE_SEGMENT && index < segments && offset + bytes > lengths[index])
        lengths[index] = (size_t)offset + bytes;
    }
  }
}

static void store(uint8_t *at, uint64_t x, size_t bytes) { memcpy(at, &x, bytes); }

static void scribble(uint8_t *data, size_t bytes, dice *d, uint64_t times) {
  for (; times > 0 && bytes > 0; times--) {
    size_t at = (size_t)below(d, bytes);
    uint64_t x = odd_integer(d, 8);
    size_t n = one_in(d, 2) ? 1 : (size_t)1 << below(d, 4);
    if (n > 1) at = at / n * n;
    if (at + n <= bytes) memcpy(data + at, &x, n);
  }
}

static void set_segment(node *segment, uint64_t offset, uint64_t length) {
  set_scalar(tree_field(segment, ERT_FIELD_SEGMENT_OFFSET), offset);
  set_scalar(tree_field(segment, ERT_FIELD_SEGMENT_LENGTH), length);
}

mutant assemble(node *root, const edgert_bundle *seed, const size_t *lengths, const patch *code, dice *d, pool *work) {
  ert_vector old = ert_items(seed->root, ERT_FIELD_BUNDLE_SEGMENTS);
  node *segments = tree_field(root, ERT_FIELD_BUNDLE_SEGMENTS);
  uint8_t *metadata = pool_take(work, MOST_BYTES);
  mutant none = {NULL, 0}, out = none;
  bool lay_out = segments->count == old.count;
  for (uint32_t i = 0; lay_out && i < old.count; i++)
    set_segment(&segments->items[i], 1, 1); /* counted in the length */
  size_t bytes = metadata ? tree_encode(root, metadata, MOST_BYTES) : 0;
  if (bytes == 0) return none;
  const uint64_t minor = one_in(d, 8) ? 2 : MINOR_OF_PIECES;
  size_t end = HEADER + bytes + (minor < MINOR_OF_PIECES ? 0 : ERT_SHA256_BYTES * ert_metadata_pieces(bytes));
  size_t starts[MOST_SEGMENTS] = {0};
  for (uint32_t i = 0; lay_out && i < old.count; i++) {
    size_t start = (end + ERT_PAGE_BYTES - 1) / ERT_PAGE_BYTES * ERT_PAGE_BYTES;
    starts[i] = start;
    end = start + lengths[i];
    set_segment(&segments->items[i], one_in(d, 64) ? odd_integer(d, 8) : start, one_in(d, 64) ? roll(d) : lengths[i]);
  }
  if (end > MOST_BYTES || tree_encode(root, metadata, MOST_BYTES) != bytes) return none;
  void *memory;
  if (posix_memalign(&memory, 64, end) != 0) return none;
  out = (mutant){memset(memory, 0, end), end};
  static const uint8_t magic[8] = {0x89, 'E', 'D', 'G', 'E', 'R', 'T', '\n'};
  memcpy(out.data, magic, sizeof magic);
  store(out.data + 8, 1, 2);
  store(out.data + MINOR_AT, minor, 2);
  store(out.data + 16, end, 8);
  store(out.data + 24, HEADER, 8);
  store(out.data + METADATA_LENGTH_AT, bytes, 8);
  memcpy(out.data + HEADER, metadata, bytes);
  for (uint32_t i = 0; lay_out && i < old.count; i++) {
    ert_table from = ert_item(old, i);
    uint64_t had = ert_u64(from, ERT_FIELD_SEGMENT_LENGTH, 0);
    uint8_t *to = out.data + starts[i];
    memcpy(to, ert_segment_data(seed, from), had < lengths[i] ? had : lengths[i]);
    if (code->count && code->segment == i) memcpy(to + code->at, code->bytes, code->count);
    if (one_in(d, 3)) scribble(to, lengths[i], d, 1 + below(d, 6));
  }
  if (one_in(d, 6)) scribble(out.data + HEADER, bytes, d, 1 + below(d, 3));
  sign_file(out.data, out.bytes);
  if (one_in(d, 64)) scribble(out.data, HEADER, d, 1);
  return out;
}
