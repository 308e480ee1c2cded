/* The flatbuffer verifier: walks what the schema's tables describe, with a fixed stack and budgets on the work. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "bundle/flatbuffer.h"

/* A vector of tables whose elements from `next` on are still to be visited. */
typedef struct pending {
  uint64_t next, end; /* positions of offsets */
  uint32_t table;
} pending;

/* Tables nest as deep as the schema does, and each of them leaves at most its vector fields waiting. */
enum { STACK = 32 };

typedef struct verifier {
  const ert_metadata *metadata;
  const uint8_t *data;
  uint64_t length;
  uint64_t tables_left, bytes_left;
  uint8_t *attributes; /* a bit for every fourth byte: an attribute that begins there was proven */
  ert_reach reach;
  uint32_t depth;
  pending stack[STACK];
} verifier;

/* What is being looked at, for messages. */
typedef struct place {
  const char *table, *field;
} place;

static edgert_status malformed(const verifier *v, place p, uint64_t at, const char *expected, const char *got) {
  ert_text where = ert_format("metadata, byte %" PRIu64 " of the file, %s%s%s", v->metadata->base + at, p.table,
                              *p.field ? "." : "", p.field);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected, got);
}

static uint16_t load16(const verifier *v, uint64_t at) {
  uint16_t x;
  memcpy(&x, v->data + at, sizeof x);
  return x;
}

static uint32_t load32(const verifier *v, uint64_t at) {
  uint32_t x;
  memcpy(&x, v->data + at, sizeof x);
  return x;
}

static edgert_status out_of_reach(const verifier *v, place p, uint64_t at, uint64_t bytes, uint64_t alignment) {
  if (!ert_within(at, bytes, v->length))
    return malformed(v, p, at, ert_format("%" PRIu64 " bytes before the end of the metadata", bytes).s,
                     ert_format("%" PRIu64, at < v->length ? v->length - at : 0).s);
  return malformed(v, p, at, ert_format("a multiple of %" PRIu64, alignment).s,
                   ert_format("%" PRIu64, v->metadata->base + at).s);
}

/* Proves that `bytes` bytes at `at` lie in the buffer, intact, and that `at` is a multiple of `alignment`, a power of two. */
static inline edgert_status reach(const verifier *v, place p, uint64_t at, uint64_t bytes, uint64_t alignment) {
  bool reached = ert_within(at, bytes, v->length) && (at & (alignment - 1)) == 0;
  return reached ? ert_metadata_expect(v->metadata, at, bytes) : out_of_reach(v, p, at, bytes, alignment);
}

/* *target = where the offset stored at `at` leads; proves that four bytes can be read there. */
static edgert_status follow(const verifier *v, place p, uint64_t at, uint64_t *target) {
  uint32_t offset = load32(v, at);
  if (offset == 0) return malformed(v, p, at, "an offset", "0");
  *target = at + offset;
  return reach(v, p, *target, 4, 4);
}

static edgert_status spend(const verifier *v, place p, uint64_t at, uint64_t *left, uint64_t cost) {
  if (cost > *left)
    return malformed(v, p, at, "contents stored once", "more references than the metadata has room for");
  *left -= cost;
  return EDGERT_OK;
}

/* Whether eight bytes are ASCII, none of them NUL. */
static bool plain(const uint8_t *s) {
  uint64_t eight;
  memcpy(&eight, s, sizeof eight);
  return ((eight | (eight - UINT64_C(0x0101010101010101))) & UINT64_C(0x8080808080808080)) == 0;
}

/* The number of bytes of the UTF-8 character at s, which `room` bytes and a NUL follow; 0 if it is none. */
static uint32_t character(const uint8_t *s) {
  if (s[0] == 0) return 0;
  if (s[0] < 0x80) return 1;
  uint32_t extra = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : s[0] < 0xf5 ? 3 : 0;
  for (uint32_t i = 1; i <= extra; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return extra == 0 || overlong || beyond ? 0 : extra + 1;
}

static edgert_status verify_text(verifier *v, place p, uint64_t at) {
  uint64_t target = 0;
  ERT_TRY(follow(v, p, at, &target));
  uint32_t count = load32(v, target);
  ERT_TRY(reach(v, p, target + 4, (uint64_t)count + 1, 1));
  ERT_TRY(spend(v, p, target, &v->bytes_left, (uint64_t)count + 5));
  const uint8_t *text = v->data + target + 4;
  if (text[count] != 0) return malformed(v, p, target + 4 + count, "a text's final NUL", "another byte");
  for (uint32_t i = 0, n; i < count; i += n) { /* the final NUL stops a character that would cross it */
    n = count - i >= 8 && plain(text + i) ? 8 : character(text + i);
    if (n == 0) return malformed(v, p, target + 4 + i, "UTF-8 without NUL", "another byte");
  }
  return EDGERT_OK;
}

/* Proves the extent of a vector; *first is the position of its elements. */
static edgert_status verify_vector(verifier *v, place p, uint64_t at, uint32_t size, uint64_t *first, uint32_t *count) {
  uint64_t target = 0;
  ERT_TRY(follow(v, p, at, &target));
  *count = load32(v, target);
  *first = target + 4;
  ERT_TRY(reach(v, p, *first, (uint64_t)*count * size, size));
  return spend(v, p, target, &v->bytes_left, (uint64_t)*count * size + 4);
}

static edgert_status verify_field(verifier *v, place p, const ert_schema_field *field, uint64_t at) {
  uint64_t first;
  uint32_t count;
  switch (field->kind) {
    case ERT_KIND_SCALAR:
      return EDGERT_OK;
    case ERT_KIND_TEXT:
      return verify_text(v, p, at);
    case ERT_KIND_SCALARS:
      return verify_vector(v, p, at, field->detail, &first, &count);
    case ERT_KIND_TEXTS:
      ERT_TRY(verify_vector(v, p, at, 4, &first, &count));
      for (uint32_t i = 0; i < count; i++) ERT_TRY(verify_text(v, p, first + 4 * (uint64_t)i));
      return EDGERT_OK;
    case ERT_KIND_TABLES:
      ERT_TRY(verify_vector(v, p, at, 4, &first, &count));
      if (count == 0) return EDGERT_OK;
      if (v->depth == STACK) return malformed(v, p, at, "a schema that nests less", "a deeper one");
      v->stack[v->depth++] = (pending){first, first + 4 * (uint64_t)count, field->detail};
      return EDGERT_OK;
  }
  return EDGERT_OK;
}

/* Whether the attribute at `table`, a multiple of 4, was proven before: most are those of several steps. Marks it. */
static bool proven(const verifier *v, uint64_t table) {
  uint8_t *at = &v->attributes[table / 32];
  const uint8_t bit = (uint8_t)(1u << table / 4 % 8);
  const bool found = *at & bit;
  *at |= bit;
  return found;
}

/* Visits the table that the offset stored at `at` leads to; its vectors of tables are left on the stack. */
static edgert_status verify_table(verifier *v, uint64_t at, uint32_t number) {
  const ert_schema_table *schema = &ert_schema[number];
  place p = {schema->name, ""};
  uint64_t table = 0;
  ERT_TRY(follow(v, p, at, &table));
  ERT_TRY(spend(v, p, table, &v->tables_left, 1));
  if (number == ERT_TABLE_ATTRIBUTE && proven(v, table)) return EDGERT_OK;
  int32_t back = (int32_t)load32(v, table);
  int64_t vtable_at = (int64_t)table - back;
  if (vtable_at < 0) return malformed(v, p, table, "a vtable within the metadata", "one before it");
  uint64_t vtable = (uint64_t)vtable_at;
  ERT_TRY(reach(v, p, vtable, 4, 2));
  uint16_t vtable_bytes = load16(v, vtable), table_bytes = load16(v, vtable + 2);
  if (vtable_bytes < 4 || vtable_bytes % 2 != 0)
    return malformed(v, p, vtable, "an even vtable size of at least 4", ert_format("%u", vtable_bytes).s);
  ERT_TRY(reach(v, p, vtable, vtable_bytes, 2));
  if (table_bytes < 4)
    return malformed(v, p, vtable + 2, "a table size of at least 4", ert_format("%u", table_bytes).s);
  ERT_TRY(reach(v, p, table, table_bytes, 4));
  uint32_t count = (vtable_bytes - 4u) / 2;
  for (uint32_t i = 0; i < count && i < schema->count; i++) {
    const ert_schema_field *field = &schema->fields[i];
    uint16_t offset = load16(v, vtable + 4 + 2 * i);
    if (offset == 0) continue;
    p.field = field->name;
    uint32_t size = field->kind == ERT_KIND_SCALAR ? field->detail : 4;
    if (offset < 4 || !ert_within(offset, size, table_bytes))
      return malformed(v, p, vtable + 4 + 2 * i, ert_format("%u bytes within the table's %u", size, table_bytes).s,
                       ert_format("offset %u", offset).s);
    if (((table + offset) & (size - 1)) != 0) return out_of_reach(v, p, table + offset, size, size);
    const bool beyond = number == ERT_TABLE_PROGRAM && field->kind == ERT_KIND_TABLES && v->reach == ERT_REACH_PROGRAMS;
    if (!beyond) ERT_TRY(verify_field(v, p, field, table + offset));
  }
  return EDGERT_OK;
}

/* The table that the offset at `at` leads to, and those behind it. */
static edgert_status verify_tables(verifier *v, uint64_t at, uint32_t number) {
  ERT_TRY(reach(v, (place){ert_schema[number].name, ""}, at, 4, 4));
  ERT_TRY(verify_table(v, at, number));
  while (v->depth > 0) {
    pending *top = &v->stack[v->depth - 1];
    uint64_t next = top->next;
    uint32_t table = top->table;
    top->next += 4;
    if (top->next == top->end) v->depth--;
    ERT_TRY(verify_table(v, next, table));
  }
  return EDGERT_OK;
}

static edgert_status verify(const ert_metadata *metadata, uint64_t at, uint32_t number, ert_reach reach) {
  const uint64_t length = metadata->bytes;
  verifier v = {.metadata = metadata,
                .data = metadata->data,
                .length = length,
                .tables_left = length / 8,
                .bytes_left = 8 * length,
                .reach = reach};
  if (length > INT32_MAX)
    return malformed(&v, (place){"Bundle", ""}, 0, "less than 2 GiB", ert_format("%" PRIu64 " bytes", length).s);
  void *memory;
  ERT_TRY(ert_allocate((size_t)length / 32 + 1, "marks of attributes", &memory));
  v.attributes = memory;
  edgert_status status = verify_tables(&v, at, number);
  ert_free(memory);
  return status;
}

edgert_status ert_flatbuffer_verify(const ert_metadata *metadata, ert_reach reach) {
  return verify(metadata, 0, ERT_TABLE_BUNDLE, reach);
}

edgert_status ert_flatbuffer_verify_program(const ert_metadata *metadata, uint64_t at) {
  return verify(metadata, at, ERT_TABLE_PROGRAM, ERT_REACH_ALL);
}
