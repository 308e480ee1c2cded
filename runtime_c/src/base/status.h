/* How a function fails: a status, and a message kept for the calling thread. What only failures need is cold: compilers put
 * it apart, where it takes no part of the pages and lines that others share. */
#ifndef ERT_BASE_STATUS_H
#define ERT_BASE_STATUS_H

#include "edgert/edgert.h"

/* A short text by value: lives until the end of the full expression that formats it. */
typedef struct ert_text {
  char s[256];
} ert_text;

ert_text ert_format(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* Returns `status` after keeping the message: the status's sentence; `where`; `expected` and `got`; the status's hint.
 * Lines whose texts are NULL or "" are left out. Control characters, which names from files may hold, become '?'. */
edgert_status ert_fail(edgert_status status, const char *where, const char *expected, const char *got)
    __attribute__((cold));

/* Proves that a caller gave a pointer, his argument `name`. */
static inline edgert_status ert_expect(const void *pointer, const char *name) {
  return pointer ? EDGERT_OK : ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, name, "a pointer", "NULL");
}

/* Returns from the calling function if the expression gives an error. */
#define ERT_TRY(expression)                                 \
  do {                                                      \
    edgert_status ert_try_status = (expression);            \
    if (ert_try_status != EDGERT_OK) return ert_try_status; \
  } while (0)

#endif
