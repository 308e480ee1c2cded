/* Access to a verified flatbuffer. */
#include "bundle/flatbuffer.h"

#include <stdint.h>
#include <string.h>

#define LOAD(type, at) (*(const type *)(const void *)(at)) /* everything is aligned, as verified */

/* Where an offset stored at `at` leads. */
static const uint8_t *follow(const uint8_t *at) { return at + LOAD(uint32_t, at); }

static const uint8_t *find(ert_table table, uint32_t field) {
  const uint8_t *vtable = table - LOAD(int32_t, table);
  if (4 + 2 * field + 2 > LOAD(uint16_t, vtable)) return NULL;
  uint16_t offset = LOAD(uint16_t, vtable + 4 + 2 * field);
  return offset ? table + offset : NULL;
}

ert_table ert_root(const uint8_t *data) { return follow(data); }

uint8_t ert_u8(ert_table table, uint32_t field, uint8_t otherwise) {
  const uint8_t *at = find(table, field);
  return at ? *at : otherwise;
}

uint32_t ert_u32(ert_table table, uint32_t field, uint32_t otherwise) {
  const uint8_t *at = find(table, field);
  return at ? LOAD(uint32_t, at) : otherwise;
}

uint64_t ert_u64(ert_table table, uint32_t field, uint64_t otherwise) {
  const uint8_t *at = find(table, field);
  return at ? LOAD(uint64_t, at) : otherwise;
}

float ert_f32(ert_table table, uint32_t field, float otherwise) {
  const uint8_t *at = find(table, field);
  return at ? LOAD(float, at) : otherwise;
}

const char *ert_string(ert_table table, uint32_t field) {
  const uint8_t *at = find(table, field);
  return at ? (const char *)follow(at) + 4 : "";
}

ert_vector ert_items(ert_table table, uint32_t field) {
  static const uint64_t nothing;
  const uint8_t *at = find(table, field);
  if (!at) return (ert_vector){&nothing, 0};
  at = follow(at);
  return (ert_vector){at + 4, LOAD(uint32_t, at)};
}

ert_table ert_item(ert_vector tables, uint32_t index) {
  return follow((const uint8_t *)tables.data + 4 * (size_t)index);
}

const char *ert_text_item(ert_vector texts, uint32_t index) {
  return (const char *)follow((const uint8_t *)texts.data + 4 * (size_t)index) + 4;
}
