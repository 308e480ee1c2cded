/* The metadata of a bundle as a tree of values: decoding, copying, encoding. */
#include "tree.h"

#include <string.h>

void *pool_take(pool *from, size_t bytes) {
  size_t at = (from->used + 15) / 16 * 16;
  if (at > from->size || bytes > from->size - at) return NULL;
  from->used = at + bytes;
  return memset(from->data + at, 0, bytes);
}

static uint8_t *take_copy(pool *from, const void *source, size_t bytes) {
  uint8_t *copy = pool_take(from, bytes + 1); /* and a NUL */
  if (copy && bytes) memcpy(copy, source, bytes);
  return copy;
}

static bool is_present(ert_table table, uint32_t field) {
  int32_t back;
  uint16_t bytes, offset = 0;
  memcpy(&back, table, sizeof back);
  memcpy(&bytes, table - back, sizeof bytes);
  if (4 + 2 * field + 2 <= bytes) memcpy(&offset, table - back + 4 + 2 * field, sizeof offset);
  return offset != 0;
}

static uint64_t read_scalar(ert_table table, uint32_t field, uint32_t bytes) {
  return bytes == 1 ? ert_u8(table, field, 0) : bytes == 4 ? ert_u32(table, field, 0) : ert_u64(table, field, 0);
}

static bool decode_table(pool *from, ert_table table, uint32_t number, node *out);

static bool decode_field(pool *from, ert_table table, uint32_t field, node *out) {
  ert_vector items = {NULL, 0};
  switch (out->kind) {
    case ERT_KIND_SCALAR:
      out->scalar = read_scalar(table, field, out->detail);
      return true;
    case ERT_KIND_TEXT:
      out->count = (uint32_t)strlen(ert_string(table, field));
      return (out->bytes = take_copy(from, ert_string(table, field), out->count)) != NULL;
    case ERT_KIND_SCALARS:
      items = ert_items(table, field);
      out->count = items.count;
      return (out->bytes = take_copy(from, items.data, (size_t)items.count * out->detail)) != NULL;
    case ERT_KIND_TEXTS:
    case ERT_KIND_TABLES:
      break;
  }
  items = ert_items(table, field);
  out->count = items.count;
  out->items = pool_take(from, items.count * sizeof *out->items);
  if (!out->items) return false;
  for (uint32_t i = 0; i < items.count; i++) {
    node *item = &out->items[i];
    if (out->kind == ERT_KIND_TABLES) {
      if (!decode_table(from, ert_item(items, i), out->detail, item)) return false;
      continue;
    }
    const char *text = ert_text_item(items, i);
    *item = (node){.present = true, .kind = ERT_KIND_TEXT, .name = out->name, .count = (uint32_t)strlen(text)};
    if (!(item->bytes = take_copy(from, text, item->count))) return false;
  }
  return true;
}

static bool decode_table(pool *from, ert_table table, uint32_t number, node *out) {
  const ert_schema_table *schema = &ert_schema[number];
  *out = (node){.is_table = true, .present = true, .detail = number, .name = schema->name, .count = schema->count};
  out->items = pool_take(from, schema->count * sizeof *out->items);
  if (!out->items) return false;
  for (uint32_t i = 0; i < schema->count; i++) {
    const ert_schema_field *f = &schema->fields[i];
    out->items[i] = (node){.kind = f->kind, .detail = f->detail, .name = f->name, .present = is_present(table, i)};
    if (!decode_field(from, table, i, &out->items[i])) return false;
  }
  return true;
}

node *tree_decode(pool *from, ert_table root) {
  node *out = pool_take(from, sizeof *out);
  return out && decode_table(from, root, ERT_TABLE_BUNDLE, out) ? out : NULL;
}

node *tree_field(node *table, uint32_t field) { return &table->items[field]; }

bool tree_copy(pool *from, node *to, const node *source) {
  node copy = *source;
  if (source->bytes) {
    copy.bytes =
        take_copy(from, source->bytes, (size_t)source->count * (source->kind == ERT_KIND_SCALARS ? source->detail : 1));
    if (!copy.bytes) return false;
  }
  if (source->items) {
    copy.items = pool_take(from, source->count * sizeof *copy.items);
    if (!copy.items) return false;
    for (uint32_t i = 0; i < source->count; i++)
      if (!tree_copy(from, &copy.items[i], &source->items[i])) return false;
  }
  *to = copy;
  return true;
}

/* ---- encoding: front to back, so that all offsets lead forward ---- */

typedef struct writer {
  uint8_t *data;
  size_t end, room;
  bool full;
} writer;

/* The position of `bytes` zeroed bytes, `position + lead` being a multiple of `alignment`. */
static size_t put(writer *w, size_t bytes, size_t alignment, size_t lead) {
  size_t at = w->end;
  while ((at + lead) % alignment != 0) at++;
  if (w->full || at > w->room || bytes > w->room - at) {
    w->full = true;
    return 0;
  }
  memset(w->data + w->end, 0, at + bytes - w->end);
  w->end = at + bytes;
  return at;
}

static void set(writer *w, size_t at, const void *value, size_t bytes) {
  if (!w->full && bytes) memcpy(w->data + at, value, bytes);
}

/* Stores at `at` the offset from there to `target`. */
static void link_to(writer *w, size_t at, size_t target) {
  uint32_t offset = (uint32_t)(target - at);
  set(w, at, &offset, sizeof offset);
}

static size_t encode_table(writer *w, const node *table);

static size_t encode_text(writer *w, const node *text) {
  size_t at = put(w, 4 + (size_t)text->count + 1, 4, 0);
  set(w, at, &text->count, 4);
  set(w, at + 4, text->bytes, text->count);
  return at;
}

static size_t encode_vector(writer *w, const node *field) {
  bool scalars = field->kind == ERT_KIND_SCALARS;
  size_t size = scalars ? field->detail : 4;
  size_t at = put(w, 4 + field->count * size, size > 4 ? size : 4, 4);
  set(w, at, &field->count, 4);
  if (scalars) set(w, at + 4, field->bytes, field->count * size);
  for (uint32_t i = 0; !scalars && !w->full && i < field->count; i++) {
    const node *item = &field->items[i];
    link_to(w, at + 4 + 4 * (size_t)i, item->is_table ? encode_table(w, item) : encode_text(w, item));
  }
  return at;
}

/* The vtable, the table with its largest fields first, then what it refers to. */
static size_t encode_table(writer *w, const node *table) {
  enum { MOST = 16 };
  size_t vtable = put(w, 4 + 2 * (size_t)table->count, 2, 0), at = put(w, 4, 8, 4), places[MOST] = {0};
  int32_t back = (int32_t)(at - vtable);
  uint16_t head[2 + MOST] = {(uint16_t)(4 + 2 * table->count)};
  set(w, at, &back, sizeof back);
  for (uint32_t size = 8; size > 0; size /= 2) {
    for (uint32_t i = 0; i < table->count; i++) {
      const node *field = &table->items[i];
      if (!field->present || (field->kind == ERT_KIND_SCALAR ? field->detail : 4) != size) continue;
      places[i] = put(w, size, size, 0);
      head[2 + i] = (uint16_t)(places[i] - at);
      if (field->kind == ERT_KIND_SCALAR) set(w, places[i], &field->scalar, size);
    }
  }
  head[1] = (uint16_t)(w->end - at);
  set(w, vtable, head, head[0]);
  for (uint32_t i = 0; i < table->count && !w->full; i++) {
    const node *field = &table->items[i];
    if (!field->present || field->kind == ERT_KIND_SCALAR) continue;
    link_to(w, places[i], field->kind == ERT_KIND_TEXT ? encode_text(w, field) : encode_vector(w, field));
  }
  return at;
}

size_t tree_encode(const node *root, uint8_t *out, size_t room) {
  writer w = {.data = out, .room = room};
  link_to(&w, put(&w, 4, 4, 0), 0);
  link_to(&w, 0, encode_table(&w, root));
  while (w.end % 8 != 0 && !w.full) put(&w, 1, 1, 0);
  return w.full ? 0 : w.end;
}
