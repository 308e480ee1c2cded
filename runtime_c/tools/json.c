/* JSON on stdout. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Bytes of the UTF-8 character at s; 0 if it is none. */
static int character(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  int bytes = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
  for (int i = 1; i < bytes; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return overlong || beyond ? 0 : bytes;
}

static void put_string(const char *value) {
  const unsigned char *s = (const unsigned char *)value;
  putchar('"');
  while (*s) {
    int bytes = character(s);
    if (bytes == 0)
      putchar('?');
    else if (*s == '"' || *s == '\\')
      printf("\\%c", *s);
    else if (*s < 0x20)
      printf("\\u%04x", *s);
    else
      printf("%.*s", bytes, (const char *)s);
    s += bytes ? bytes : 1;
  }
  putchar('"');
}

/* What goes before a value. */
static void lead(json *j, const char *key) {
  if (j->filled) putchar(',');
  if (j->depth > 0) printf("\n%*s", 2 * j->depth, "");
  j->filled = true;
  if (!key) return;
  put_string(key);
  printf(": ");
}

void json_begin(json *j, const char *key, char bracket) {
  lead(j, key);
  putchar(bracket);
  j->depth++;
  j->filled = false;
}

void json_end(json *j, char bracket) {
  j->depth--;
  if (j->filled) printf("\n%*s", 2 * j->depth, "");
  putchar(bracket);
  if (j->depth == 0) putchar('\n');
  j->filled = true;
}

void json_text(json *j, const char *key, const char *value) {
  lead(j, key);
  if (value)
    put_string(value);
  else
    printf("null");
}

void json_real(json *j, const char *key, double value) {
  lead(j, key);
  if (isfinite(value))
    printf("%.9g", value);
  else
    printf("null");
}

void json_count(json *j, const char *key, uint64_t value) {
  lead(j, key);
  printf("%" PRIu64, value);
}

void json_bool(json *j, const char *key, bool value) {
  lead(j, key);
  printf(value ? "true" : "false");
}
