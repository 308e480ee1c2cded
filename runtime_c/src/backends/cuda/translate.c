/* PTX made machine code by the driver's own compiler: its options, its complaints, and what was translated before. */
#include "backends/cuda/translate.h"

#include <stdio.h>
#include <string.h>

enum { LOG_BYTES = 4096, ERROR_LOG = 5, ERROR_LOG_BYTES = 6, LINK_PTX = 1 };

/* One line for a message, from what the driver's translator wrote: its first complaint. */
static ert_text first_line(char *log) {
  log[LOG_BYTES - 1] = '\0';
  char *line = log;
  for (char *next; (next = strchr(line, '\n')) && next[1]; line = next + 1)
    if (strstr(line, "error") && strstr(line, "error") < next) break;
  line[strcspn(line, "\n")] = '\0';
  return ert_format("%.200s", line);
}

/* The same text gives other code on another device or by another driver. */
static void key_of(const ert_device *d, const char *text, size_t bytes, uint8_t key[ERT_SHA256_BYTES]) {
  ert_text for_whom = ert_format("1, %.96s, sm_%d, driver %d\n", d->name, d->sm, d->version);
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, for_whom.s, strlen(for_whom.s));
  ert_sha256_add(&hash, text, bytes);
  ert_sha256_finish(&hash, key);
}

static bool load_kept(const ert_device *d, const uint8_t key[ERT_SHA256_BYTES], CUmodule *out) {
  ert_cached found = ert_cache_find(&d->cache, key);
  bool loaded = found.data && d->driver.cuModuleLoadDataEx(out, found.data, 0, NULL, NULL) == CUDA_SUCCESS;
  if (!loaded) *out = NULL;
  ert_cache_release(found);
  return loaded;
}

edgert_status ert_translate(ert_device *d, const char *text, size_t bytes, const char *what, CUmodule *out) {
  const ert_driver *driver = &d->driver;
  uint8_t key[ERT_SHA256_BYTES];
  key_of(d, text, bytes, key);
  if (load_kept(d, key, out)) return EDGERT_OK;
  char log[LOG_BYTES] = "";
  int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
  CUlinkState link = NULL;
  void *cubin = NULL;
  size_t cubin_bytes = 0;
  const char *call = "cuLinkCreate_v2";
  CUresult result = driver->cuLinkCreate_v2(2, options, values, &link);
  if (result == CUDA_SUCCESS) {
    call = "cuLinkAddData_v2";
    result = driver->cuLinkAddData_v2(link, LINK_PTX, (void *)(uintptr_t)text, bytes, what, 0, NULL, NULL);
  }
  if (result == CUDA_SUCCESS) {
    call = "cuLinkComplete";
    result = driver->cuLinkComplete(link, &cubin, &cubin_bytes);
  }
  if (result == CUDA_SUCCESS) {
    call = "cuModuleLoadDataEx";
    result = driver->cuModuleLoadDataEx(out, cubin, 0, NULL, NULL);
  }
  edgert_status status = EDGERT_OK;
  if (result == CUDA_SUCCESS) {
    ert_cache_keep(&d->cache, key, cubin, cubin_bytes);
  } else {
    ert_text said = first_line(log);
    ert_text where = ert_format("PTX of %s for sm_%d, device sm_%d, driver %d.%d%s%.120s", what, d->packed, d->sm,
                                d->version / 1000, d->version % 1000 / 10, *said.s ? ": " : "", said.s);
    *out = NULL;
    status = ert_driver_fail(driver, result, call, where.s);
  }
  if (link) (void)driver->cuLinkDestroy(link);
  return status;
}
