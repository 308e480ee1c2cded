/* Metadata as a flatbuffer: a verifier driven by the schema's tables, and access to what it has verified. */
#ifndef ERT_BUNDLE_FLATBUFFER_H
#define ERT_BUNDLE_FLATBUFFER_H

#include <stdint.h>

#include "base/status.h"
#include "bundle/metadata.h"
#include "bundle/schema_tables.h"

/* ---- the schema ---- */

typedef enum ert_kind {
  ERT_KIND_SCALAR,  /* detail: bytes */
  ERT_KIND_TEXT,    /* UTF-8, no NUL but the one that ends it */
  ERT_KIND_SCALARS, /* detail: bytes of an element */
  ERT_KIND_TEXTS,
  ERT_KIND_TABLES, /* detail: which table */
} ert_kind;

typedef struct ert_schema_field {
  const char *name;
  ert_kind kind;
  uint32_t detail;
} ert_schema_field;

typedef struct ert_schema_table {
  const char *name;
  const ert_schema_field *fields;
  uint32_t count;
} ert_schema_table;

extern const ert_schema_table ert_schema[ERT_TABLE_COUNT];

/* How far a verification goes: to the end, or not to the tables that programs have, which nobody may look at then. */
typedef enum ert_reach { ERT_REACH_ALL, ERT_REACH_PROGRAMS } ert_reach;

/* Proves that everything reachable from the root table, a Bundle, lies within the metadata, intact, aligned, with valid
 * texts, in time linear in its length: at most length / 8 tables are referred to, and 8 length bytes of vectors and texts,
 * counted once for each reference, but for those of attributes, each of which is looked at once. */
edgert_status ert_flatbuffer_verify(const ert_metadata *metadata, ert_reach reach);

/* The same for the Program that the offset at byte `at` of the metadata leads to. */
edgert_status ert_flatbuffer_verify_program(const ert_metadata *metadata, uint64_t at);

/* ---- access to a verified buffer; nothing fails, and it is so frequent that it is inline ---- */

/* A table: where it begins. */
typedef const uint8_t *ert_table;

typedef struct ert_vector {
  const void *data; /* the elements, aligned; never NULL */
  uint32_t count;
} ert_vector;

#define ERT_LOAD(type, at) (*(const type *)(const void *)(at)) /* everything is aligned, as verified */

/* Where an offset stored at `at` leads. */
static inline const uint8_t *ert_follow(const uint8_t *at) { return at + ERT_LOAD(uint32_t, at); }

static inline ert_table ert_root(const uint8_t *data) { return ert_follow(data); }

/* Where a field is, by its id (ERT_FIELD_...); NULL if it is absent. */
static inline const uint8_t *ert_field(ert_table table, uint32_t field) {
  const uint8_t *vtable = table - ERT_LOAD(int32_t, table);
  if (4 + 2 * field + 2 > ERT_LOAD(uint16_t, vtable)) return NULL;
  const uint16_t offset = ERT_LOAD(uint16_t, vtable + 4 + 2 * field);
  return offset ? table + offset : NULL;
}

/* Fields: the value, or what stands for an absent one: `otherwise`, "" or an empty vector. */
static inline uint8_t ert_u8(ert_table table, uint32_t field, uint8_t otherwise) {
  const uint8_t *at = ert_field(table, field);
  return at ? *at : otherwise;
}

static inline uint32_t ert_u32(ert_table table, uint32_t field, uint32_t otherwise) {
  const uint8_t *at = ert_field(table, field);
  return at ? ERT_LOAD(uint32_t, at) : otherwise;
}

static inline uint64_t ert_u64(ert_table table, uint32_t field, uint64_t otherwise) {
  const uint8_t *at = ert_field(table, field);
  return at ? ERT_LOAD(uint64_t, at) : otherwise;
}

static inline float ert_f32(ert_table table, uint32_t field, float otherwise) {
  const uint8_t *at = ert_field(table, field);
  return at ? ERT_LOAD(float, at) : otherwise;
}

static inline const char *ert_string(ert_table table, uint32_t field) {
  const uint8_t *at = ert_field(table, field);
  return at ? (const char *)ert_follow(at) + 4 : "";
}

static inline ert_vector ert_items(ert_table table, uint32_t field) {
  static const uint64_t nothing;
  const uint8_t *at = ert_field(table, field);
  if (!at) return (ert_vector){&nothing, 0};
  at = ert_follow(at);
  return (ert_vector){at + 4, ERT_LOAD(uint32_t, at)};
}

/* Elements of a vector of tables or texts; index < count. */
static inline ert_table ert_item(ert_vector tables, uint32_t index) {
  return ert_follow((const uint8_t *)tables.data + 4 * (size_t)index);
}

static inline const char *ert_text_item(ert_vector texts, uint32_t index) {
  return (const char *)ert_follow((const uint8_t *)texts.data + 4 * (size_t)index) + 4;
}

#undef ERT_LOAD

#endif
