/* Names of results, and the log. */
#include "base/result.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/export.h"
#include "edgert-cuda-emulator.h"

static const struct {
  CUresult number;
  const char *name, *sentence;
} rows[] = {
#define X(name, number, sentence) {name, #name, sentence},
#include "base/results.def"
#undef X
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[2048];
static void (*log_function)(void *context, const char *message);
static void *log_context;

const char *emu_result_name(CUresult result) {
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].number == result) return rows[i].name;
  return NULL;
}

const char *emu_result_sentence(CUresult result) {
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].number == result) return rows[i].sentence;
  return NULL;
}

CUresult emu_result_named(const char *name) {
  for (size_t i = 0; i < ROWS; i++)
    if (strcmp(rows[i].name, name) == 0) return rows[i].number;
  return CUDA_ERROR_UNKNOWN;
}

static void write_log(const char *name, const char *message) {
  const char *path = getenv("EDGERT_EMULATOR_LOG");
  if (!path || !*path) return;
  FILE *file = strcmp(path, "-") == 0 ? stderr : fopen(path, "a");
  if (!file) return;
  fprintf(file, "%s: %s\n", name, message);
  if (file != stderr) fclose(file);
}

CUresult emu_fail(CUresult result, const char *format, ...) {
  pthread_mutex_lock(&lock);
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(last, sizeof last, format, arguments) < 0) last[0] = '\0';
  va_end(arguments);
  write_log(emu_result_name(result), last);
  if (log_function) log_function(log_context, last);
  pthread_mutex_unlock(&lock);
  return result;
}

EMU_EXPORT const char *edgertEmulatorMessage(void) { return last; }

EMU_EXPORT void edgertEmulatorSetLog(void (*log)(void *context, const char *message), void *context) {
  pthread_mutex_lock(&lock);
  log_function = log;
  log_context = context;
  pthread_mutex_unlock(&lock);
}
