/* Changes to single fields of the metadata, and to what all tensors of an extent or a type have in common. */
#include "change.h"

#include <string.h>

#include "base/dtype.h"

/* Whether a field is for people, or only copied: seldom worth a change. */
static bool is_dull(const node *table, const node *field) {
  static const char *const dull[] = {"producer", "model", "goldens",     "target",
                                     "arch",     "nodes", "arena_floor", "sha256"};
  for (size_t i = 0; i < sizeof dull / sizeof dull[0]; i++)
    if (strcmp(field->name, dull[i]) == 0) return true;
  return table->detail != ERT_TABLE_ATTRIBUTE && strcmp(field->name, "name") == 0;
}

void collect(sites *s, node *table, dice *d) {
  for (uint32_t i = 0; i < table->count; i++) {
    node *field = &table->items[i];
    if (is_dull(table, field) && !one_in(d, 16)) continue;
    if (s->count < SITES) s->at[s->count++] = field;
    if (field->kind == ERT_KIND_TABLES)
      for (uint32_t k = 0; k < field->count; k++) collect(s, &field->items[k], d);
  }
}

node *pick(const sites *s, dice *d) { return s->at[below(d, s->count)]; }

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

void set_scalar(node *field, uint64_t x) {
  field->present = true;
  field->scalar = x;
}

uint64_t element(const node *field, uint32_t i) {
  uint64_t x = 0;
  memcpy(&x, field->bytes + (size_t)i * field->detail, field->detail);
  return x;
}

void set_element(node *field, uint32_t i, uint64_t x) {
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

bool resize(pool *from, node *field, uint32_t count) {
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
                                      "launch",
                                      "put",
                                      "get",
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

void change_field(node *field, const sites *s, const sites *donor, dice *d, pool *work) {
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

void change_extent(const sites *s, dice *d) {
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

void change_type(const sites *s, dice *d) {
  const char *name = one_in(d, 3) ? "layout" : "dtype";
  uint64_t old = one_in(d, 2) ? 1 : below(d, 11), new = below(d, strcmp(name, "dtype") == 0 ? 11 : ERT_LAYOUT_COUNT);
  if (*name == 'l') old = below(d, 2);
  for (uint32_t i = 0; i < s->count; i++)
    if (strcmp(s->at[i]->name, name) == 0 && s->at[i]->scalar == old) set_scalar(s->at[i], new);
}
