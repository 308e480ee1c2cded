/* Makes hostile bundles out of good ones. */
#include "mutate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "edgert/edgert.h"
#include "platform/sha256.h"

enum { SITES = 4096, MOST_SEGMENTS = 8, MOST_BYTES = 1 << 20, MOST_EXTENT = 1 << 18 };

uint64_t roll(dice *d) {
  d->state += 0x9e3779b97f4a7c15u;
  uint64_t x = d->state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t below(dice *d, uint64_t n) { return n ? roll(d) % n : 0; }

static bool one_in(dice *d, uint64_t n) { return below(d, n) == 0; }

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

/* ---- where to change something ---- */

typedef struct sites {
  node *at[SITES];
  uint32_t count;
} sites;

/* Whether a field is for people, or only copied: seldom worth a change. */
static bool is_dull(const node *table, const node *field) {
  static const char *const dull[] = {"producer", "model", "goldens",     "target",
                                     "arch",     "nodes", "arena_floor", "sha256"};
  for (size_t i = 0; i < sizeof dull / sizeof dull[0]; i++)
    if (strcmp(field->name, dull[i]) == 0) return true;
  return table->detail != ERT_TABLE_ATTRIBUTE && strcmp(field->name, "name") == 0;
}

static void collect(sites *s, node *table, dice *d) {
  for (uint32_t i = 0; i < table->count; i++) {
    node *field = &table->items[i];
    if (is_dull(table, field) && !one_in(d, 16)) continue;
    if (s->count < SITES) s->at[s->count++] = field;
    if (field->kind == ERT_KIND_TABLES)
      for (uint32_t k = 0; k < field->count; k++) collect(s, &field->items[k], d);
  }
}

static node *pick(const sites *s, dice *d) { return s->at[below(d, s->count)]; }

/* A random field of the same name and sort; NULL if none was met. */
static node *pick_alike(const sites *s, const node *like, dice *d) {
  for (int i = 0; i < 64; i++) {
    node *other = pick(s, d);
    if (strcmp(other->name, like->name) == 0 && other->kind == like->kind && other->detail == like->detail)
      return other;
  }
  return NULL;
}

/* ---- elements of vectors ---- */

static void set_scalar(node *field, uint64_t x) {
  field->present = true;
  field->scalar = x;
}

static uint64_t element(const node *field, uint32_t i) {
  uint64_t x = 0;
  memcpy(&x, field->bytes + (size_t)i * field->detail, field->detail);
  return x;
}

static void set_element(node *field, uint32_t i, uint64_t x) {
  memcpy(field->bytes + (size_t)i * field->detail, &x, field->detail);
}

static uint64_t altered(const node *field, uint64_t x, dice *d) {
  if (strcmp(field->name, "floats") == 0 || strcmp(field->name, "atol") == 0) {
    float value = odd_float(d);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  switch (below(d, 6)) {
    case 0:
      return x + 1;
    case 1:
      return x - 1;
    case 2:
      return x ^ 1ull << below(d, 8 * field->detail);
    case 3:
      return one_in(d, 2) ? x * 2 : x / 2;
    default:
      return odd_integer(d, field->detail);
  }
}

static bool resize(pool *from, node *field, uint32_t count) {
  uint8_t *bytes = pool_take(from, (size_t)count * field->detail + 1);
  if (!bytes) return false;
  uint32_t kept = count < field->count ? count : field->count;
  if (kept) memcpy(bytes, field->bytes, (size_t)kept * field->detail);
  field->bytes = bytes;
  field->count = count;
  return true;
}

static void change_scalars(node *field, const sites *s, dice *d, pool *work) {
  uint32_t n = field->count, i = (uint32_t)below(d, n), k = (uint32_t)below(d, n);
  const node *other = pick_alike(s, field, d);
  field->present = true;
  switch (n == 0 ? 5 + below(d, 2) : below(d, 8)) {
    case 0: { /* swap two */
      uint64_t x = element(field, i);
      set_element(field, i, element(field, k));
      set_element(field, k, x);
      return;
    }
    case 1: /* drop one */
      for (uint32_t j = i; j + 1 < n; j++) set_element(field, j, element(field, j + 1));
      field->count--;
      return;
    case 2: /* one of another's */
      if (other && other->count > 0) set_element(field, i, element(other, (uint32_t)below(d, other->count)));
      return;
    case 5: /* add one */
      if (!resize(work, field, n + 1)) return;
      set_element(field, n, n > 0 && one_in(d, 2) ? element(field, i) : odd_integer(d, field->detail));
      return;
    case 6: /* the whole of another */
      if (other) (void)tree_copy(work, field, other);
      return;
    case 7: /* all of them */
      for (uint32_t j = 0; j < n; j++) set_element(field, j, altered(field, element(field, j), d));
      return;
    default:
      set_element(field, i, altered(field, element(field, i), d));
      return;
  }
}

static void change_text(node *field, const sites *s, dice *d, pool *work) {
  static const char *const words[] = {"conv",
                                      "conv_depthwise",
                                      "linear",
                                      "matmul",
                                      "unary",
                                      "binary",
                                      "copy",
                                      "reorder",
                                      "pool",
                                      "reduce",
                                      "softmax",
                                      "normalize",
                                      "gather",
                                      "concat",
                                      "pad",
                                      "resize",
                                      "cast",
                                      "where",
                                      "relu",
                                      "add",
                                      "max",
                                      "average",
                                      "lp",
                                      "mean",
                                      "sum",
                                      "activation",
                                      "activation_parameters",
                                      "kind",
                                      "axis",
                                      "group",
                                      "mode",
                                      "none",
                                      "linear",
                                      "cubic",
                                      "axes",
                                      "scale_shift",
                                      "clip",
                                      "selu",
                                      "pow",
                                      "div",
                                      "shift_left",
                                      ""};
  const node *other = one_in(d, 2) ? pick_alike(s, field, d) : NULL;
  field->present = true;
  if (other) {
    (void)tree_copy(work, field, other);
  } else if (one_in(d, 8) && field->count > 0) {
    field->bytes[below(d, field->count)] = (uint8_t)below(d, 256);
  } else {
    const char *word = words[below(d, sizeof words / sizeof words[0])];
    uint8_t *bytes = pool_take(work, strlen(word) + 1);
    if (!bytes) return;
    memcpy(bytes, word, strlen(word) + 1);
    field->bytes = bytes;
    field->count = (uint32_t)strlen(word);
  }
}

static void change_list(node *field, const node *donor_list, dice *d, pool *work) {
  uint32_t n = field->count, i = (uint32_t)below(d, n), k = (uint32_t)below(d, n);
  const node *extra = donor_list && donor_list->count ? &donor_list->items[below(d, donor_list->count)] : NULL;
  if (!extra && n > 0) extra = &field->items[k];
  field->present = true;
  switch (below(d, 4)) {
    case 0: /* drop one */
      if (n == 0) return;
      memmove(&field->items[i], &field->items[i + 1], (n - i - 1) * sizeof *field->items);
      field->count--;
      return;
    case 1: /* swap two */
      if (n > 0) {
        node first = field->items[i];
        field->items[i] = field->items[k];
        field->items[k] = first;
      }
      return;
    case 2: /* replace one */
      if (n > 0 && extra) (void)tree_copy(work, &field->items[i], extra);
      return;
    default: /* insert one */
      if (!extra) return;
      node *items = pool_take(work, (n + 1) * sizeof *items);
      if (!items || !tree_copy(work, &items[i], extra)) return;
      memcpy(items, field->items, i * sizeof *items);
      memcpy(items + i + 1, field->items + i, (n - i) * sizeof *items);
      field->items = items;
      field->count = n + 1;
      return;
  }
}

static void change_field(node *field, const sites *s, const sites *donor, dice *d, pool *work) {
  node *other = NULL;
  switch (field->kind) {
    case ERT_KIND_SCALAR:
      if (one_in(d, 3)) other = pick_alike(s, field, d);
      field->scalar = other ? other->scalar : altered(field, field->scalar, d);
      field->present = true;
      return;
    case ERT_KIND_TEXT:
      change_text(field, one_in(d, 2) ? s : donor, d, work);
      return;
    case ERT_KIND_SCALARS:
      change_scalars(field, one_in(d, 4) ? donor : s, d, work);
      return;
    case ERT_KIND_TEXTS:
    case ERT_KIND_TABLES:
      change_list(field, one_in(d, 2) ? pick_alike(donor, field, d) : NULL, d, work);
      return;
  }
}

/* Every number in shapes and attributes that equals a random extent becomes another one: shapes stay consistent. */
static void change_extent(const sites *s, dice *d) {
  const node *shape = NULL;
  for (int i = 0; i < 64 && !shape; i++) {
    const node *found = pick(s, d);
    if (strcmp(found->name, "shape") == 0 && found->count > 0) shape = found;
  }
  if (!shape) return;
  uint64_t old = element(shape, (uint32_t)below(d, shape->count));
  uint64_t new = one_in(d, 4) ? odd_integer(d, 8) : one_in(d, 6) ? 0 : below(d, 40);
  bool attributes_too = one_in(d, 2);
  for (uint32_t i = 0; i < s->count; i++) {
    node *field = s->at[i];
    if (strcmp(field->name, "shape") != 0 && !(attributes_too && strcmp(field->name, "ints") == 0)) continue;
    for (uint32_t k = 0; k < field->count; k++)
      if (element(field, k) == old) set_element(field, k, new);
  }
}

/* The element type or layout of all tensors that have a certain one. */
static void change_type(const sites *s, dice *d) {
  const char *name = one_in(d, 3) ? "layout" : "dtype";
  uint64_t old = one_in(d, 2) ? 1 : below(d, 11), new = below(d, strcmp(name, "dtype") == 0 ? 11 : 4);
  if (*name == 'l') old = below(d, 2);
  for (uint32_t i = 0; i < s->count; i++)
    if (strcmp(s->at[i]->name, name) == 0 && s->at[i]->scalar == old) set_scalar(s->at[i], new);
}

/* ---- views, cores and phases ---- */

static bool is_view(node *tensor) {
  const node *root = tree_field(tensor, ERT_FIELD_TENSOR_ROOT);
  return root->present && root->scalar != ERT_NO_ROOT;
}

static node *random_program(node *root, dice *d) {
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  return programs->count ? &programs->items[below(d, programs->count)] : NULL;
}

/* Appends a view of the tensor `id` that has `extent` entries from `begin` on along `axis`; its id, -1 if no room. */
static int64_t add_view(node *tensors, uint64_t id, uint32_t axis, uint64_t begin, uint64_t extent, pool *work) {
  static const uint32_t nothing[] = {ERT_FIELD_TENSOR_EXTENT_AXIS, ERT_FIELD_TENSOR_EXTENT_COUNT};
  node *items = pool_take(work, (tensors->count + 1) * sizeof *items);
  if (!items || !tree_copy(work, &items[tensors->count], &tensors->items[id])) return -1;
  memcpy(items, tensors->items, tensors->count * sizeof *items);
  node *view = &items[tensors->count], *start = tree_field(view, ERT_FIELD_TENSOR_BEGIN);
  node *shape = tree_field(view, ERT_FIELD_TENSOR_SHAPE);
  if (!resize(work, start, shape->count)) return -1;
  start->present = true;
  memset(start->bytes, 0, shape->count * sizeof(int64_t));
  set_element(start, axis, begin);
  set_element(shape, axis, extent);
  set_scalar(tree_field(view, ERT_FIELD_TENSOR_ROOT), id);
  for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) tree_field(view, nothing[i])->present = false;
  tensors->items = items;
  return tensors->count++;
}

/* Lets a step work on views: of every operand, or of some, that has a certain extent along a certain dimension. */
static void cut_operands(node *root, dice *d, pool *work) {
  node *program = random_program(root, d);
  node *steps = program ? tree_field(program, ERT_FIELD_PROGRAM_STEPS) : NULL;
  if (!steps || steps->count == 0) return;
  node *step = &steps->items[below(d, steps->count)], *tensors = tree_field(program, ERT_FIELD_PROGRAM_TENSORS);
  node *operands[] = {tree_field(step, ERT_FIELD_STEP_INPUTS), tree_field(step, ERT_FIELD_STEP_OUTPUTS)};
  uint32_t axis = (uint32_t)below(d, 4);
  uint64_t whole = 0, begin = 0, extent = 0, rarity = 1 + below(d, 2);
  for (uint32_t side = 0; side < 2; side++) {
    for (uint32_t i = 0; i < operands[side]->count; i++) {
      uint64_t id = element(operands[side], i);
      if (id >= tensors->count || is_view(&tensors->items[id])) continue;
      const node *shape = tree_field(&tensors->items[id], ERT_FIELD_TENSOR_SHAPE);
      if (axis >= shape->count || (whole && element(shape, axis) != whole)) continue;
      if (!whole) {
        uint64_t unit = one_in(d, 4) ? 1 : 16;
        whole = element(shape, axis);
        if (tree_field(&tensors->items[id], ERT_FIELD_TENSOR_LAYOUT)->scalar == 0 || axis != 1) unit = 1;
        begin = below(d, whole / unit + 1) * unit;
        extent = one_in(d, 2) ? whole - begin : below(d, (whole - begin) / unit + 1) * unit;
      }
      if (!one_in(d, rarity)) continue;
      int64_t view = add_view(tensors, id, axis, begin, extent, work);
      if (view >= 0) set_element(operands[side], i, (uint64_t)view);
    }
  }
}

/* Deals the steps to some cores and phases. */
static void deal_out(node *root, dice *d) {
  node *program = random_program(root, d);
  if (!program) return;
  node *steps = tree_field(program, ERT_FIELD_PROGRAM_STEPS), *speeds = tree_field(program, ERT_FIELD_PROGRAM_SPEEDS);
  uint64_t cores = 1 + below(d, 4), rarity = 1 + below(d, 3), phase = 0;
  set_scalar(tree_field(program, ERT_FIELD_PROGRAM_CORES), cores);
  speeds->count = 0;
  for (uint32_t i = 0; i < steps->count; i++) {
    phase += i > 0 && one_in(d, rarity);
    set_scalar(tree_field(&steps->items[i], ERT_FIELD_STEP_CORE), one_in(d, 3) ? ERT_ALL_CORES : below(d, cores));
    set_scalar(tree_field(&steps->items[i], ERT_FIELD_STEP_PHASE), phase);
  }
}

/* Gives views what they have of their roots. */
static void follow_roots(node *root) {
  static const uint32_t shared[] = {ERT_FIELD_TENSOR_DTYPE, ERT_FIELD_TENSOR_LAYOUT, ERT_FIELD_TENSOR_PLACE,
                                    ERT_FIELD_TENSOR_INDEX, ERT_FIELD_TENSOR_OFFSET};
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  for (uint32_t p = 0; p < programs->count; p++) {
    node *tensors = tree_field(&programs->items[p], ERT_FIELD_PROGRAM_TENSORS);
    for (uint32_t i = 0; i < tensors->count; i++) {
      uint64_t id = tree_field(&tensors->items[i], ERT_FIELD_TENSOR_ROOT)->scalar;
      if (!is_view(&tensors->items[i]) || id >= tensors->count) continue;
      for (size_t k = 0; k < sizeof shared / sizeof shared[0]; k++)
        set_scalar(tree_field(&tensors->items[i], shared[k]), tree_field(&tensors->items[id], shared[k])->scalar);
    }
  }
}

/* ---- memory ---- */

/* Takes the entry at `position` out of the list of inputs or outputs; those behind it move up. */
static void unbind(node *program, node *tensors, uint64_t place, uint64_t position) {
  node *ids = tree_field(program, place == ERT_PLACE_INPUT ? ERT_FIELD_PROGRAM_INPUTS : ERT_FIELD_PROGRAM_OUTPUTS);
  if (position >= ids->count) return;
  for (uint32_t i = (uint32_t)position; i + 1 < ids->count; i++) set_element(ids, i, element(ids, i + 1));
  ids->count--;
  for (uint32_t i = 0; i < tensors->count; i++) {
    node *index = tree_field(&tensors->items[i], ERT_FIELD_TENSOR_INDEX);
    if (tree_field(&tensors->items[i], ERT_FIELD_TENSOR_PLACE)->scalar == place && index->scalar > position)
      set_scalar(index, index->scalar - 1);
  }
}

/* Moves inputs, outputs and constants into the arena, where they overlap as they please. */
static void move_to_arena(node *root, dice *d) {
  node *program = random_program(root, d);
  if (!program) return;
  node *tensors = tree_field(program, ERT_FIELD_PROGRAM_TENSORS);
  uint64_t rarity = 1 + below(d, 3);
  for (uint32_t i = 0; i < tensors->count; i++) {
    node *t = &tensors->items[i], *place = tree_field(t, ERT_FIELD_TENSOR_PLACE);
    node *index = tree_field(t, ERT_FIELD_TENSOR_INDEX);
    if (!one_in(d, rarity) || is_view(t)) continue;
    if (place->scalar == ERT_PLACE_INPUT || place->scalar == ERT_PLACE_OUTPUT)
      unbind(program, tensors, place->scalar, index->scalar);
    set_scalar(place, ERT_PLACE_ARENA);
    set_scalar(index, 0);
    set_scalar(tree_field(t, ERT_FIELD_TENSOR_OFFSET), 64 * below(d, one_in(d, 2) ? 2 : 16));
  }
}

/* ---- the file ---- */

/* Makes room: arena and segments become as large as the tensors in them ask for, if that is not too much. */
static void make_room(node *root, size_t *lengths, uint32_t segments) {
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  for (uint32_t p = 0; p < programs->count; p++) {
    node *program = &programs->items[p], *tensors = tree_field(program, ERT_FIELD_PROGRAM_TENSORS);
    node *arena = tree_field(program, ERT_FIELD_PROGRAM_ARENA_BYTES);
    for (uint32_t i = 0; i < tensors->count; i++) {
      node *t = &tensors->items[i], *shape = tree_field(t, ERT_FIELD_TENSOR_SHAPE);
      uint64_t dtype = tree_field(t, ERT_FIELD_TENSOR_DTYPE)->scalar,
               layout = tree_field(t, ERT_FIELD_TENSOR_LAYOUT)->scalar;
      uint64_t place = tree_field(t, ERT_FIELD_TENSOR_PLACE)->scalar,
               offset = tree_field(t, ERT_FIELD_TENSOR_OFFSET)->scalar;
      uint64_t index = tree_field(t, ERT_FIELD_TENSOR_INDEX)->scalar;
      int64_t extents[ERT_MAX_RANK], elements;
      size_t bytes;
      if (shape->count > ERT_MAX_RANK) continue;
      memcpy(extents, shape->bytes, shape->count * sizeof *extents);
      if (!ert_tensor_size((uint8_t)dtype, (uint8_t)layout, shape->count, extents, &elements, &bytes)) continue;
      if (bytes > MOST_EXTENT || offset > MOST_EXTENT) continue;
      if (place == ERT_PLACE_ARENA && offset + bytes > arena->scalar) set_scalar(arena, offset + bytes);
      if (place == ERT_PLACE_SEGMENT && index < segments && offset + bytes > lengths[index])
        lengths[index] = (size_t)offset + bytes;
    }
  }
}

static void store(uint8_t *at, uint64_t x, size_t bytes) { memcpy(at, &x, bytes); }

static void sign(uint8_t *file, size_t metadata) {
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, file, 64);
  ert_sha256_add(&hash, file + 128, metadata);
  ert_sha256_finish(&hash, file + 64);
}

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

/* Encodes metadata with segments of the given lengths, filled from the seed's. */
static mutant assemble(node *root, const edgert_bundle *seed, const size_t *lengths, dice *d, pool *work) {
  ert_vector old = ert_items(seed->root, ERT_FIELD_BUNDLE_SEGMENTS);
  node *segments = tree_field(root, ERT_FIELD_BUNDLE_SEGMENTS);
  uint8_t *metadata = pool_take(work, MOST_BYTES);
  mutant none = {NULL, 0}, out = none;
  bool lay_out = segments->count == old.count;
  for (uint32_t i = 0; lay_out && i < old.count; i++)
    set_segment(&segments->items[i], 1, 1); /* counted in the length */
  size_t bytes = metadata ? tree_encode(root, metadata, MOST_BYTES) : 0;
  if (bytes == 0) return none;
  size_t end = 128 + bytes, starts[MOST_SEGMENTS] = {0};
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
  store(out.data + 10, 1, 2);
  store(out.data + 16, end, 8);
  store(out.data + 24, 128, 8);
  store(out.data + 32, bytes, 8);
  memcpy(out.data + 128, metadata, bytes);
  for (uint32_t i = 0; lay_out && i < old.count; i++) {
    ert_table from = ert_item(old, i);
    uint64_t had = ert_u64(from, ERT_FIELD_SEGMENT_LENGTH, 0);
    uint8_t *to = out.data + starts[i];
    memcpy(to, ert_segment_data(seed, from), had < lengths[i] ? had : lengths[i]);
    if (one_in(d, 3)) scribble(to, lengths[i], d, 1 + below(d, 6));
  }
  if (one_in(d, 6)) scribble(out.data + 128, bytes, d, 1 + below(d, 3));
  sign(out.data, bytes);
  if (one_in(d, 64)) scribble(out.data, 128, d, 1);
  return out;
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
  if (!one_in(d, 4)) follow_roots(root);
  if (!one_in(d, 4)) make_room(root, lengths, segments.count);
  return assemble(root, seed, lengths, d, work);
}
