/* Modules: machine code where the driver takes it, else PTX that the driver translates. */
#include <inttypes.h>

#include "backends/cuda/inflate.h"
#include "backends/cuda/internal.h"
#include "backends/cuda/translate.h"
#include "base/alloc.h"
#include "base/checked.h"

/* What a driver says of machine code that it cannot run; PTX may still do. */
static bool refused(CUresult result) {
  static const short refusals[] = {200, 209, 218, 220, 222, 223, 300};
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
    if (refusals[i] == result) return true;
  return false;
}

static edgert_status load_ptx(ert_device *d, const ert_code *code, const char *what, CUmodule *out) {
  size_t bytes;
  void *text;
  if (!ert_add(code->ptx_bytes, 1, &bytes)) bytes = SIZE_MAX; /* which the allocation refuses */
  ERT_TRY(ert_allocate(bytes, "PTX of a module", &text));
  edgert_status status = EDGERT_OK;
  if (!ert_inflate(code->ptx, code->ptx_stored, text, code->ptx_bytes))
    status = ert_fail(EDGERT_ERROR_MALFORMED, ert_format("PTX of %s", what).s,
                      ert_format("a DEFLATE stream of %zu bytes", code->ptx_bytes).s, "another one");
  if (status == EDGERT_OK) status = ert_translate(d, text, bytes, what, out);
  ert_free(text);
  return status;
}

static edgert_status load(ert_device *d, const ert_code *code, const char *what, CUmodule *out) {
  if (code->cubin) {
    CUresult result = d->driver.cuModuleLoadDataEx(out, code->cubin, 0, NULL, NULL);
    if (result == CUDA_SUCCESS) return EDGERT_OK;
    *out = NULL;
    if (!refused(result) || !code->ptx)
      return ert_driver_fail(&d->driver, result, "cuModuleLoadDataEx",
                             ert_format("machine code of %s for sm_%d, device sm_%d, driver %d.%d", what, d->packed,
                                        d->sm, d->version / 1000, d->version % 1000 / 10)
                                 .s);
  }
  if (code->ptx) return load_ptx(d, code, what, out);
  return ert_fail(EDGERT_ERROR_MALFORMED, what, "machine code or PTX", "neither");
}

edgert_status ert_modules_load(ert_device *d, const ert_device_request *request) {
  size_t bytes;
  void *memory;
  if (!ert_multiply(request->n_codes, sizeof(CUmodule), &bytes)) bytes = SIZE_MAX;
  ERT_TRY(ert_allocate(bytes, "modules of a program", &memory));
  d->modules = memory;
  ert_cache_open(request->code_cache, &d->cache);
  d->n_modules = request->n_codes;
  for (uint32_t i = 0; i < request->n_codes; i++) {
    if (request->progress) request->progress(request->user, i, request->n_codes);
    ERT_TRY(load(d, &request->codes[i], ert_format("module %" PRIu32, i).s, &d->modules[i]));
  }
  if (request->progress) request->progress(request->user, request->n_codes, request->n_codes);
  ert_cache_trim(&d->cache);
  return EDGERT_OK;
}

void ert_modules_unload(ert_device *d) {
  for (uint32_t i = 0; i < d->n_modules; i++)
    if (d->modules[i]) (void)d->driver.cuModuleUnload(d->modules[i]);
  ert_free(d->modules);
  d->modules = NULL;
  d->n_modules = 0;
}
