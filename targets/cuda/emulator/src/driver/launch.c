/* Kernels: attributes, and launching. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

/* Functions live in their modules; a handle of an unloaded module is found out. */
static bool valid(CUfunction function) {
  for (emu_object *o = emu_object_any(EMU_MODULE, emu_current()); o; o = o->next) {
    if (o->kind != EMU_MODULE) continue;
    for (CUfunction f = ((CUmodule)(uintptr_t)o)->functions; f; f = f->next)
      if (f == function) return true;
  }
  return false;
}

static uint32_t max_threads(const ptx_function *f) { return f->max_threads ? f->max_threads : EMU_MAX_THREADS; }

/* Dynamic shared memory that a launch may ask for. */
static uint32_t dynamic_limit(CUfunction f) {
  uint32_t base = (uint32_t)emu_settings_get()->device.shared_per_block;
  uint32_t statically = f->f->shared_bytes < base ? base - f->f->shared_bytes : 0;
  return f->max_dynamic_shared > statically ? f->max_dynamic_shared : statically;
}

EMU_EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  EMU_CALL("cuFuncGetAttribute", true);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(function)) return CUDA_ERROR_INVALID_HANDLE;
  const ptx_function *f = function->f;
  switch (attribute) {
    case 0:
      *value = (int)max_threads(f);
      return CUDA_SUCCESS;
    case 1:
      *value = (int)f->shared_bytes;
      return CUDA_SUCCESS;
    case 2:
      *value = 0;
      return CUDA_SUCCESS; /* constant bytes of the kernel's own */
    case 3:
      *value = (int)f->local_bytes;
      return CUDA_SUCCESS;
    case 4:
      *value = (int)f->register_count;
      return CUDA_SUCCESS;
    case 5:
      *value = function->module->program.version;
      return CUDA_SUCCESS;
    case 6:
      *value = emu_settings_get()->device.sm;
      return CUDA_SUCCESS;
    case 7:
      *value = 0;
      return CUDA_SUCCESS; /* compiled with caching of globals */
    case 8:
      *value = (int)dynamic_limit(function);
      return CUDA_SUCCESS;
    case 9:
      *value = -1;
      return CUDA_SUCCESS; /* preferred carveout */
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

EMU_EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  EMU_CALL("cuFuncSetAttribute", true);
  enum { MAX_DYNAMIC = 8, CARVEOUT = 9 };
  if (!valid(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CARVEOUT) return CUDA_SUCCESS;
  int most = emu_settings_get()->device.shared_opt_in - (int)function->f->shared_bytes;
  if (attribute != MAX_DYNAMIC || value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
  function->max_dynamic_shared = (uint32_t)value;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, int config) {
  EMU_CALL("cuFuncSetCacheConfig", true);
  if (!valid(function)) return CUDA_ERROR_INVALID_HANDLE;
  return config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                                size_t dynamic_shared) {
  EMU_CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor", true);
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!valid(function)) return CUDA_ERROR_INVALID_HANDLE;
  const emu_device *d = &emu_settings_get()->device;
  int warps = (threads + EMU_WARP - 1) / EMU_WARP, by_threads = d->threads_per_multiprocessor / (warps * EMU_WARP);
  size_t shared = function->f->shared_bytes + dynamic_shared;
  int by_shared = shared ? d->shared_per_multiprocessor / (int)(shared + 1) : by_threads;
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  return CUDA_SUCCESS;
}

/* The parameters as the kernel reads them, from pointers to each or from a buffer; NULL without memory. */
static uint8_t *gather(const ptx_function *f, void **pointers, void **extra, CUresult *result) {
  enum { END = 0, BUFFER = 1, SIZE = 2 };
  uint8_t *data = calloc(1, f->parameter_bytes ? f->parameter_bytes : 1);
  *result = CUDA_SUCCESS;
  if (!data) *result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!data || f->parameter_count == 0) return data;
  if (pointers) {
    for (uint32_t i = 0; i < f->parameter_count; i++)
      memcpy(data + f->parameters[i].offset, pointers[i], f->parameters[i].bytes);
    return data;
  }
  const void *buffer = NULL;
  size_t bytes = 0;
  for (; extra && (uintptr_t)extra[0] != END; extra += 2) {
    if ((uintptr_t)extra[0] == BUFFER) buffer = extra[1];
    if ((uintptr_t)extra[0] == SIZE) memcpy(&bytes, extra[1], sizeof bytes);
  }
  if (buffer && bytes >= f->parameter_bytes)
    memcpy(data, buffer, f->parameter_bytes);
  else
    *result = emu_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s takes %u bytes of parameters, %zu are given", f->name,
                       f->parameter_bytes, bytes);
  return data;
}

static CUresult check_shape(CUfunction function, const emu_work *w) {
  const ptx_function *f = function->f;
  uint64_t threads = (uint64_t)w->threads[0] * w->threads[1] * w->threads[2];
  if (threads == 0 || w->threads[0] > 1024 || w->threads[1] > 1024 || w->threads[2] > 64 || threads > max_threads(f))
    return emu_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: block of %u x %u x %u threads; at most %u", f->name,
                    w->threads[0], w->threads[1], w->threads[2], max_threads(f));
  if (w->grid[0] == 0 || w->grid[1] == 0 || w->grid[2] == 0 || w->grid[0] > INT32_MAX || w->grid[1] > 65535 ||
      w->grid[2] > 65535)
    return emu_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: grid of %u x %u x %u blocks", f->name, w->grid[0], w->grid[1],
                    w->grid[2]);
  if (w->dynamic_shared > dynamic_limit(function))
    return emu_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: %u bytes of dynamic shared memory; at most %u", f->name,
                    w->dynamic_shared, dynamic_limit(function));
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void **parameters, void **extra) {
  EMU_CALL("cuLaunchKernel", true);
  if (!valid(function) || !emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  emu_work w = {.kind = WORK_KERNEL,
                .stream = stream,
                .function = function->f,
                .bytes = function->f->parameter_bytes,
                .grid = {grid_x, grid_y, grid_z},
                .threads = {block_x, block_y, block_z},
                .dynamic_shared = shared_bytes};
  EMU_TRY(check_shape(function, &w));
  CUresult result;
  w.data = gather(function->f, parameters, extra, &result);
  if (result == CUDA_SUCCESS) result = emu_submit(&w);
  if (result != CUDA_SUCCESS) free(w.data);
  return result;
}
