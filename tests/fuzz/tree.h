/* The metadata of a bundle as a tree of values, decoded and encoded by the library's own schema. */
#ifndef EDGERT_FUZZ_TREE_H
#define EDGERT_FUZZ_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bundle/flatbuffer.h"

/* Memory that is given out piece by piece and taken back all at once. */
typedef struct pool {
  uint8_t *data;
  size_t used, size;
} pool;

/* Zeroed memory, 16-byte aligned; NULL if there is no room left. */
void *pool_take(pool *from, size_t bytes);

/* A table: `items` are its fields in the order of the schema. Otherwise a field: `kind` says of which sort. */
typedef struct node {
  bool is_table, present;
  ert_kind kind;      /* of a field */
  uint32_t detail;    /* of a field as in the schema; of a table: which */
  const char *name;   /* of the field, or of the table */
  uint64_t scalar;    /* SCALAR, as an unsigned number of `detail` bytes */
  uint8_t *bytes;     /* TEXT: count bytes and a NUL; SCALARS: count elements of `detail` bytes */
  uint32_t count;     /* of bytes, elements or items */
  struct node *items; /* a table's fields; TEXTS, TABLES: what they hold */
} node;

/* The tree of a verified flatbuffer; NULL if there is no room. Texts and vectors are copied. */
node *tree_decode(pool *from, ert_table root);

/* The field of a table. */
node *tree_field(node *table, uint32_t field);

/* A copy of a node's value; false if there is no room. */
bool tree_copy(pool *from, node *to, const node *source);

/* Writes the flatbuffer of a tree to `out`; 0 if it needs more than `room` bytes. `out` is 8-byte aligned. */
size_t tree_encode(const node *root, uint8_t *out, size_t room);

#endif
