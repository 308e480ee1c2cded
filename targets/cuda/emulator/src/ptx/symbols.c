/* A hash table with chains; newer entries come first in their chain. */
#include "ptx/symbols.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(const char *name, size_t length) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)name[i]) * 16777619u;
  return h;
}

symbol *symbol_add(symbol_table *t, const char *name, size_t length) {
  if (t->count == t->capacity) {
    uint32_t more = t->capacity ? t->capacity * 2 : 256;
    symbol *grown = realloc(t->entries, more * sizeof *grown);
    if (!grown) return NULL;
    t->entries = grown;
    t->capacity = more;
  }
  uint32_t h = hash_of(name, length), *bucket = &t->buckets[h % SYMBOL_BUCKETS];
  symbol *s = &t->entries[t->count++];
  *s = (symbol){.name = name, .length = (uint32_t)length, .hash = h, .next = *bucket, .depth = t->depth};
  *bucket = t->count;
  return s;
}

symbol *symbol_find(symbol_table *t, const char *name, size_t length, bool range) {
  uint32_t h = hash_of(name, length);
  for (uint32_t i = t->buckets[h % SYMBOL_BUCKETS]; i; i = t->entries[i - 1].next) {
    symbol *s = &t->entries[i - 1];
    if (s->hash == h && s->length == length && (s->kind == SYMBOL_REGISTER && s->count > 0) == range &&
        memcmp(s->name, name, length) == 0)
      return s;
  }
  return NULL;
}

void symbol_leave(symbol_table *t) {
  for (; t->count && t->entries[t->count - 1].depth == t->depth; t->count--) {
    const symbol *s = &t->entries[t->count - 1];
    t->buckets[s->hash % SYMBOL_BUCKETS] = s->next;
  }
  t->depth--;
}

void symbol_clear(symbol_table *t) {
  free(t->entries);
  *t = (symbol_table){0};
}
