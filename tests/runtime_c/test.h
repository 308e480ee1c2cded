/* What the C tests share: a check that reports and stops, random numbers, and files in memory. */
#ifndef EDGERT_TESTS_TEST_H
#define EDGERT_TESTS_TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgert/edgert.h"

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, edgert_last_error()); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

/* Runs one test function of a program and says so. */
#define RUN(test)          \
  do {                     \
    printf("%s\n", #test); \
    fflush(stdout);        \
    test();                \
  } while (0)

static inline uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

typedef struct file {
  uint8_t *data; /* 64-byte aligned; exactly `bytes` are allocated, so that sanitizers see a step beyond */
  size_t bytes;
} file;

/* A copy of the first `bytes` bytes. The caller frees data. */
static inline file copy_bytes(const void *data, size_t bytes) {
  file f = {NULL, bytes};
  void *memory = NULL;
  CHECK(posix_memalign(&memory, 64, bytes ? bytes : 1) == 0);
  f.data = memory;
  if (bytes) memcpy(f.data, data, bytes);
  return f;
}

/* The path of a committed bundle: argument 1 of every test program is the folder. */
static inline const char *golden_path(char **arguments, const char *name) {
  static char path[4096];
  CHECK(arguments[1] != NULL);
  snprintf(path, sizeof path, "%s/%s", arguments[1], name);
  return path;
}

static inline file read_whole(const char *path) {
  FILE *stream = fopen(path, "rb");
  CHECK(stream != NULL);
  CHECK(fseek(stream, 0, SEEK_END) == 0);
  long bytes = ftell(stream);
  CHECK(bytes > 0 && fseek(stream, 0, SEEK_SET) == 0);
  void *memory = malloc((size_t)bytes);
  CHECK(memory != NULL && fread(memory, 1, (size_t)bytes, stream) == (size_t)bytes);
  fclose(stream);
  file f = copy_bytes(memory, (size_t)bytes);
  free(memory);
  return f;
}

#endif
