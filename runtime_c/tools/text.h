/* Text for people: errors of at most four lines, names from files, sizes. */
#ifndef EDGERT_TOOLS_TEXT_H
#define EDGERT_TOOLS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes. */
enum { EXIT_PASSED = 0, EXIT_FAILED = 1, EXIT_ERROR = 2 };

/* A text by value: lives until the end of the full expression that makes it. */
typedef struct text {
  char s[512];
} text;

/* The text, cut where it is too long, with '?' for control characters. */
text printable(const char *s);

/* A number of bytes: "1.5 MiB". */
text size_text(uint64_t bytes);

/* Prints "error: ..." on stderr: the first four lines of the formatted text. Returns false. */
bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with the message of the library's last failed call. */
bool fail_library(void);

/* Memory for `count` objects of `bytes` bytes, zeroed, never nothing; NULL with an error printed if there is none. */
void *allocate(uint64_t count, uint64_t bytes);

#endif
