/* The CUDA driver, loaded when it is first needed; nothing is linked. */
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *ert_driver_named(const char *path) {
  if (path) return path;
  const char *chosen = getenv("EDGERT_CUDA_LIBRARY");
  return chosen && *chosen ? chosen : NULL;
}

static edgert_status missing(const char *where, const char *got) {
  return ert_fail(EDGERT_ERROR_DEVICE_MISSING, ert_format("CUDA driver %.160s", where).s, NULL, got);
}

/* Finds every function of the table; those that must be there first. */
static edgert_status find_functions(ert_driver *driver) {
  void *found;
#define OPTIONAL(name, parameters)       \
  found = dlsym(driver->library, #name); \
  memcpy(&driver->name, &found, sizeof found);
#define REQUIRED(name, parameters) \
  OPTIONAL(name, parameters)       \
  if (!found) return missing(driver->path, "it has no function " #name);
#include "backends/cuda/functions.def"
#undef REQUIRED
#undef OPTIONAL
  return EDGERT_OK;
}

edgert_status ert_driver_open(const char *path, bool emulator, ert_driver *out) {
  const char *named = ert_driver_named(path);
  *out = (ert_driver){.path = named ? named : "libcuda.so.1"};
  /* The driver has threads and handlers of its own, so it stays in memory. */
  out->library = dlopen(out->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!out->library) return missing(out->path, ert_format("%.200s", dlerror()).s);
  if (emulator && !dlsym(out->library, "edgertEmulatorMessage")) return missing(out->path, "it is not the emulator");
  ERT_TRY(find_functions(out));
  CUresult result = out->cuInit(0);
  if (result == CUDA_SUCCESS) return EDGERT_OK;
  if (result == CUDA_ERROR_NO_DEVICE) return missing(out->path, "it finds no device");
  const char *name = NULL;
  (void)out->cuGetErrorName(result, &name);
  return missing(out->path, ert_format("cuInit: %.60s", name ? name : "unknown error").s);
}

void ert_driver_close(ert_driver *driver) {
  if (driver->library) dlclose(driver->library);
  driver->library = NULL;
}

edgert_status ert_driver_status(CUresult result) {
  static const short fatal[] = {3,   4,   46,  201, 202, 214, 220, 226, 700, 702,
                                709, 710, 714, 715, 716, 717, 718, 719, 721, 999};
  for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
    if (fatal[i] == result) return EDGERT_ERROR_DEVICE_LOST;
  return result == CUDA_ERROR_OUT_OF_MEMORY ? EDGERT_ERROR_OUT_OF_MEMORY : EDGERT_ERROR_DEVICE;
}

edgert_status ert_driver_fail(const ert_driver *driver, CUresult result, const char *call, const char *doing) {
  const char *name = NULL;
  if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "unknown error";
  size_t length = strlen(call);
  if (length > 3 && strcmp(call + length - 3, "_v2") == 0) length -= 3; /* as it is called in manuals */
  return ert_fail(ert_driver_status(result), doing, NULL,
                  ert_format("%.*s: %.60s (%d)", (int)length, call, name, result).s);
}
