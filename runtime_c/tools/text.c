/* Text for people. */
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "edgert/edgert.h"

enum { MOST_LINES = 4 };

static char visible(char c) { return (unsigned char)c < 0x20 || c == 0x7f ? '?' : c; }

text printable(const char *s) {
  text t;
  size_t i = 0;
  for (; s[i] && i + 1 < sizeof t.s; i++) t.s[i] = visible(s[i]);
  t.s[i] = '\0';
  return t;
}

text size_text(uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  text t;
  double count = (double)bytes / 1024;
  unsigned unit = 0;
  for (; count >= 1024 && unit < 3; unit++) count /= 1024;
  if (bytes < 1024)
    snprintf(t.s, sizeof t.s, "%" PRIu64 " B", bytes);
  else
    snprintf(t.s, sizeof t.s, "%.1f %s", count, units[unit]);
  return t;
}

bool fail(const char *format, ...) {
  char message[2048];
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(message, sizeof message, format, arguments) < 0) message[0] = '\0';
  va_end(arguments);
  fputs("error: ", stderr);
  int lines = 1;
  for (const char *c = message; *c; c++) {
    if (*c == '\n' && ++lines > MOST_LINES) break;
    fputc(*c == '\n' ? '\n' : visible(*c), stderr);
  }
  fputc('\n', stderr);
  return false;
}

bool fail_library(void) { return fail("%s", edgert_last_error()); }

void *allocate(uint64_t count, uint64_t bytes) {
  void *memory = count > SIZE_MAX || bytes > SIZE_MAX ? NULL : calloc(count ? count : 1, bytes ? bytes : 1);
  if (!memory) fail("%" PRIu64 " times %" PRIu64 " bytes of memory could not be allocated", count, bytes);
  return memory;
}
