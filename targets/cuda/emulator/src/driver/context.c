/* Contexts. Destroying one destroys what lives in it; device memory too. */
#include <stdlib.h>

#include "driver/driver.h"
#include "ptx/parser.h"

enum { STACK = 64 };

static CUcontext primary;
static _Thread_local CUcontext stack[STACK];
static _Thread_local unsigned depth;

static CUcontext create(void) { return emu_object_create(sizeof(struct emu_context), EMU_CONTEXT, NULL); }

static void destroy_contents(CUcontext c) {
  emu_list_clear(&c->queue);
  for (CUstream s; (s = emu_object_any(EMU_STREAM, c));) {
    if (s->capture) emu_capture_end(s->capture);
    emu_object_destroy(s);
  }
  for (CUevent e; (e = emu_object_any(EMU_EVENT, c));) emu_object_destroy(e);
  for (CUgraph g; (g = emu_object_any(EMU_GRAPH, c)); emu_object_destroy(g)) emu_list_clear(&g->work);
  for (CUgraphExec g; (g = emu_object_any(EMU_GRAPH_EXEC, c)); emu_object_destroy(g)) emu_list_clear(&g->work);
  for (CUlinkState l; (l = emu_object_any(EMU_LINK, c));) emu_link_destroy(l);
  for (CUmodule m; (m = emu_object_any(EMU_MODULE, c)); emu_object_destroy(m)) {
    for (struct emu_function *f = m->functions, *next; f; f = next) next = f->next, free(f);
    ptx_program_free(&m->program);
  }
}

/* Device memory belongs to contexts; with the last one all of it is given back. */
static void destroy(CUcontext c) {
  destroy_contents(c);
  emu_object_destroy(c);
  size_t count;
  const emu_region *r;
  if (emu_object_any(EMU_CONTEXT, NULL)) return;
  while ((r = emu_regions(&count), count > 0)) emu_memory_free(r[0].address);
}

EMU_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  EMU_CALL("cuCtxCreate_v2", false);
  (void)flags;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!(*context = create())) return CUDA_ERROR_OUT_OF_MEMORY;
  if (depth < STACK) stack[depth++] = emu_current();
  emu_set_current(*context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  EMU_CALL("cuCtxDestroy_v2", false);
  if (!emu_object_valid(context, EMU_CONTEXT) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (emu_current() == context) emu_set_current(depth ? stack[--depth] : NULL);
  destroy(context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  EMU_CALL("cuCtxSetCurrent", false);
  if (context && !emu_object_valid(context, EMU_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
  emu_set_current(context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  EMU_CALL("cuCtxGetCurrent", false);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = emu_current();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  EMU_CALL("cuCtxPushCurrent_v2", false);
  if (!emu_object_valid(context, EMU_CONTEXT) || depth == STACK) return CUDA_ERROR_INVALID_CONTEXT;
  stack[depth++] = emu_current();
  emu_set_current(context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  EMU_CALL("cuCtxPopCurrent_v2", false);
  if (!emu_current()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = emu_current();
  emu_set_current(depth ? stack[--depth] : NULL);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  EMU_CALL("cuCtxGetDevice", true);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxSynchronize(void) {
  EMU_CALL("cuCtxSynchronize", true);
  EMU_TRY(emu_forbid_capture());
  return emu_drain(emu_current());
}

EMU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  EMU_CALL("cuDevicePrimaryCtxRetain", false);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!primary) {
    if (!(primary = create())) return CUDA_ERROR_OUT_OF_MEMORY;
    primary->primary = true;
  }
  primary->references++;
  *context = primary;
  return CUDA_SUCCESS;
}

static CUresult release_primary(bool all) {
  if (!primary) return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  if (!all && --primary->references > 0) return CUDA_SUCCESS;
  if (emu_current() == primary) emu_set_current(NULL);
  destroy(primary);
  primary = NULL;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  EMU_CALL("cuDevicePrimaryCtxRelease_v2", false);
  return device == 0 ? release_primary(false) : CUDA_ERROR_INVALID_DEVICE;
}

EMU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  EMU_CALL("cuDevicePrimaryCtxReset_v2", false);
  return device == 0 ? release_primary(true) : CUDA_ERROR_INVALID_DEVICE;
}

EMU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  EMU_CALL("cuDevicePrimaryCtxSetFlags_v2", false);
  (void)flags;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EMU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  EMU_CALL("cuDevicePrimaryCtxGetState", false);
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (flags) *flags = 0;
  if (active) *active = primary != NULL;
  return CUDA_SUCCESS;
}
