/* JSON on stdout, as deep as the nesting of begins and ends. */
#ifndef EDGERT_TOOLS_JSON_H
#define EDGERT_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>

typedef struct json {
  int depth;
  bool filled; /* something precedes in this object or list */
} json;

/* An object ('{') or a list ('['), ended by the matching bracket. `key` is NULL for a list's elements and the root. */
void json_begin(json *j, const char *key, char bracket);
void json_end(json *j, char bracket);

/* Members. What is not finite becomes null, and so does a NULL text; bytes that are not UTF-8 become '?'. */
void json_text(json *j, const char *key, const char *value);
void json_real(json *j, const char *key, double value);
void json_count(json *j, const char *key, uint64_t value);
void json_bool(json *j, const char *key, bool value);

#endif
