/* How a function fails: the table of statuses and the thread's last message. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct status_row {
  const char *id, *sentence, *hint;
} status_row;

static const status_row rows[] = {
    [EDGERT_OK] = {"ok", "", ""},
#define X(number, name, id, sentence, hint) [number] = {id, sentence, hint},
#include "edgert/errors.def"
#undef X
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static _Thread_local char message[1024];

ert_text ert_format(const char *format, ...) {
  ert_text text;
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(text.s, sizeof text.s, format, arguments) < 0) text.s[0] = '\0';
  va_end(arguments);
  return text;
}

/* Appends `text` at *end as one line's worth of printable characters. */
static void append(size_t *end, const char *text) {
  for (; *text && *end + 1 < sizeof message; text++) {
    unsigned char c = (unsigned char)*text;
    message[(*end)++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
  }
  message[*end] = '\0';
}

static void new_line(size_t *end) {
  if (*end + 1 < sizeof message) message[(*end)++] = '\n';
  message[*end] = '\0';
}

edgert_status ert_fail(edgert_status status, const char *where, const char *expected, const char *got) {
  size_t end = 0;
  append(&end, rows[status].sentence);
  if (where && *where) {
    new_line(&end);
    append(&end, where);
  }
  if (expected && *expected) {
    new_line(&end);
    append(&end, "expected ");
    append(&end, expected);
    append(&end, ", got ");
    append(&end, got ? got : "");
  } else if (got && *got) {
    new_line(&end);
    append(&end, got);
  }
  new_line(&end);
  append(&end, rows[status].hint);
  return status;
}

const char *edgert_last_error(void) { return message; }

const char *edgert_status_id(edgert_status status) {
  return (unsigned)status < ROWS && rows[status].id ? rows[status].id : "unknown";
}
