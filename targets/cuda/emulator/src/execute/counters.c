/* Totals, and their JSON. */
#include "execute/counters.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/export.h"
#include "edgert-cuda-emulator.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emu_counts total;
static char json[CODE_COUNT * 48 + 1024];

void emu_counts_add(const emu_counts *counts) {
  const uint64_t *from = (const uint64_t *)counts;
  uint64_t *to = (uint64_t *)&total;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof total / sizeof *to; i++) to[i] += from[i];
  pthread_mutex_unlock(&lock);
}

EMU_EXPORT void edgertEmulatorResetCounters(void) {
  pthread_mutex_lock(&lock);
  memset(&total, 0, sizeof total);
  pthread_mutex_unlock(&lock);
}

static size_t append(size_t at, const char *key, uint64_t a) {
  return at + (size_t)snprintf(json + at, sizeof json - at, "\"%s\": %llu, ", key, (unsigned long long)a);
}

EMU_EXPORT const char *edgertEmulatorCounters(void) {
  pthread_mutex_lock(&lock);
  size_t n = (size_t)snprintf(json, sizeof json, "{");
  n = append(n, "launches", total.launches);
  n = append(n, "blocks", total.blocks);
  n = append(n, "divergent_branches", total.divergent);
  n = append(n, "global_requests", total.global_requests);
  n = append(n, "global_sectors", total.global_sectors);
  n = append(n, "shared_requests", total.shared_requests);
  n = append(n, "shared_cycles", total.shared_cycles);
  n += (size_t)snprintf(json + n, sizeof json - n, "\"instructions\": {");
  const char *comma = "";
  for (unsigned c = 0; c < CODE_COUNT && n + 128 < sizeof json; c++) {
    if (total.code[c].warps == 0) continue;
    const char *type = ptx_type_name((ptx_type)(c % 16));
    n += (size_t)snprintf(json + n, sizeof json - n, "%s\"%s%s%s\": [%llu, %llu]", comma, ptx_operation_name(c),
                          *type ? "." : "", type, (unsigned long long)total.code[c].warps,
                          (unsigned long long)total.code[c].lanes);
    comma = ", ";
  }
  snprintf(json + n, sizeof json - n, "}}\n");
  pthread_mutex_unlock(&lock);
  return json;
}

/* At the end of the process, if EDGERT_EMULATOR_COUNTERS names a file. */
__attribute__((destructor)) static void write_counters(void) {
  const char *path = getenv("EDGERT_EMULATOR_COUNTERS");
  FILE *file = path && *path ? fopen(path, "w") : NULL;
  if (!file) return;
  fputs(edgertEmulatorCounters(), file);
  fclose(file);
}
