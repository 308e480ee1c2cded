/* Metadata as a flatbuffer: a verifier driven by the schema's tables, and access to what it has verified. */
#ifndef ERT_BUNDLE_FLATBUFFER_H
#define ERT_BUNDLE_FLATBUFFER_H

#include <stdint.h>

#include "base/status.h"
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

/* Proves that everything reachable from the root table, a Bundle, lies within the buffer, aligned, with valid texts,
 * in time linear in `length`: at most length / 8 tables are visited, and 8 length bytes of vectors and texts, counted
 * once for each reference. `data` is 8-byte aligned. Offsets in messages are offsets in the file: `base` is data's. */
edgert_status ert_flatbuffer_verify(const uint8_t *data, uint64_t length, uint64_t base);

/* ---- access to a verified buffer; nothing fails ---- */

/* A table: where it begins. */
typedef const uint8_t *ert_table;

typedef struct ert_vector {
  const void *data; /* the elements, aligned; never NULL */
  uint32_t count;
} ert_vector;

ert_table ert_root(const uint8_t *data);

/* Fields by id (ERT_FIELD_...): the value, or what stands for an absent one: `otherwise`, "" or an empty vector. */
uint8_t ert_u8(ert_table table, uint32_t field, uint8_t otherwise);
uint32_t ert_u32(ert_table table, uint32_t field, uint32_t otherwise);
uint64_t ert_u64(ert_table table, uint32_t field, uint64_t otherwise);
float ert_f32(ert_table table, uint32_t field, float otherwise);
const char *ert_string(ert_table table, uint32_t field);
ert_vector ert_items(ert_table table, uint32_t field);

/* Elements of a vector of tables or texts; index < count. */
ert_table ert_item(ert_vector tables, uint32_t index);
const char *ert_text_item(ert_vector texts, uint32_t index);

#endif
