/* Names and what they stand for; inner scopes hide outer ones. */
#ifndef EMU_PTX_SYMBOLS_H
#define EMU_PTX_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum symbol_kind {
  SYMBOL_REGISTER, /* index: the first virtual register; count > 0: a range, the name is its prefix */
  SYMBOL_VARIABLE,
  SYMBOL_LABEL, /* index: instruction, or, if count is 1, place in the targets */
} symbol_kind;

typedef struct symbol {
  const char *name; /* points into the text */
  uint32_t length, hash, next, depth;
  symbol_kind kind;
  uint8_t width, space;
  bool dynamic; /* shared memory whose size the launch gives */
  uint32_t index, count;
  uint64_t address; /* or offset, in the variable's space */
  uint64_t bytes;
  uint32_t align;
  uint32_t
      owner; /* the function that `address` is for: shared variables of the module are placed where they are used */
} symbol;

enum { SYMBOL_BUCKETS = 4096 };

typedef struct symbol_table {
  symbol *entries;
  uint32_t count, capacity, depth;
  uint32_t buckets[SYMBOL_BUCKETS]; /* index + 1 */
} symbol_table;

/* A new symbol of the current depth; NULL without memory. Pointers are valid until the next one is added. */
symbol *symbol_add(symbol_table *t, const char *name, size_t length);

/* The innermost symbol of this name and kind; NULL if there is none. */
symbol *symbol_find(symbol_table *t, const char *name, size_t length, bool range);

/* Forgets what was added in the current depth, and leaves it. */
void symbol_leave(symbol_table *t);

void symbol_clear(symbol_table *t);

#endif
