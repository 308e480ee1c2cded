/* Modules, their functions and variables, and the linker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/image.h"
#include "ptx/parser.h"

static CUresult check_target(const ptx_program *p, char message[512]) {
  const emu_device *d = &emu_settings_get()->device;
  int newest = emu_device_ptx(d);
  if (p->version > newest) {
    snprintf(message, 512, "PTX %d.%d; the driver takes up to %d.%d", p->version / 10, p->version % 10, newest / 10,
             newest % 10);
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  if (p->target > d->sm) {
    snprintf(message, 512, "PTX for sm_%d; the device is sm_%d", p->target, d->sm);
    return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_SUCCESS;
}

static void destroy_module(CUmodule m) {
  for (struct emu_function *f = m->functions, *next; f; f = next) next = f->next, free(f);
  ptx_program_free(&m->program);
  emu_object_destroy(m);
}

static CUresult parse_all(CUmodule m, const char *texts, size_t bytes, char message[512]) {
  for (const char *at = texts; at < texts + bytes; at += strlen(at) + 1) {
    CUresult result = ptx_parse(at, strlen(at), &m->program, message);
    if (result != CUDA_SUCCESS) return result;
    EMU_TRY(check_target(&m->program, message));
  }
  return CUDA_SUCCESS;
}

static CUresult add_functions(CUmodule m) {
  for (ptx_function *f = m->program.functions; f; f = f->next) {
    struct emu_function *new = calloc(1, sizeof *new);
    if (!new) return CUDA_ERROR_OUT_OF_MEMORY;
    *new = (struct emu_function){m->functions, m, f, 0};
    m->functions = new;
  }
  return CUDA_SUCCESS;
}

/* A module of texts that each end in NUL. */
static CUresult load(const void *image, emu_jit *jit, CUmodule *module) {
  const char *texts;
  size_t bytes;
  char message[512] = "";
  if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
  EMU_TRY(emu_forbid_capture());
  EMU_TRY(emu_image_texts(image, &texts, &bytes));
  CUmodule m = emu_object_create(sizeof *m, EMU_MODULE, emu_current());
  if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = parse_all(m, texts, bytes, message);
  if (result == CUDA_SUCCESS) result = add_functions(m);
  emu_jit_write(jit, message, "");
  if (result != CUDA_SUCCESS) {
    destroy_module(m);
    return emu_fail(result, "%s", message);
  }
  *module = m;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options,
                                       void **values) {
  EMU_CALL("cuModuleLoadDataEx", true);
  emu_jit jit;
  emu_jit_read(&jit, count, options, values);
  return load(image, &jit, module);
}

EMU_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  EMU_CALL("cuModuleLoadData", true);
  emu_jit jit = {0};
  return load(image, &jit, module);
}

EMU_EXPORT CUresult cuModuleUnload(CUmodule module) {
  EMU_CALL("cuModuleUnload", true);
  if (!emu_object_valid(module, EMU_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  EMU_TRY(emu_drain(emu_current()));
  for (emu_object *o = emu_object_any(EMU_GRAPH, module->head.context); o; o = o->next)
    if (o->kind == EMU_GRAPH) emu_list_forget(&((CUgraph)(uintptr_t)o)->work, module);
  for (emu_object *o = emu_object_any(EMU_GRAPH_EXEC, module->head.context); o; o = o->next)
    if (o->kind == EMU_GRAPH_EXEC) emu_list_forget(&((CUgraphExec)(uintptr_t)o)->work, module);
  destroy_module(module);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  EMU_CALL("cuModuleGetFunction", true);
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  if (!emu_object_valid(module, EMU_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  for (CUfunction f = module->functions; f; f = f->next) {
    if (strcmp(f->f->name, name) != 0) continue;
    *function = f;
    return CUDA_SUCCESS;
  }
  return emu_fail(CUDA_ERROR_NOT_FOUND, "the module has no kernel %s", name);
}

EMU_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  EMU_CALL("cuModuleGetGlobal_v2", true);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!emu_object_valid(module, EMU_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  for (const ptx_variable *v = module->program.variables; v; v = v->next) {
    if (strcmp(v->name, name) != 0) continue;
    if (address) *address = v->address;
    if (bytes) *bytes = v->bytes;
    return CUDA_SUCCESS;
  }
  return emu_fail(CUDA_ERROR_NOT_FOUND, "the module has no variable %s", name);
}

/* ---- the linker: it gathers texts, and checks that they can be loaded ---- */

struct emu_link {
  emu_object head;
  char *texts;
  size_t bytes;
  void *image;
  emu_jit jit;
};

void emu_link_destroy(CUlinkState l) {
  free(l->texts);
  free(l->image);
  emu_object_destroy(l);
}

EMU_EXPORT CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, CUlinkState *state) {
  EMU_CALL("cuLinkCreate_v2", true);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  CUlinkState l = emu_object_create(sizeof *l, EMU_LINK, emu_current());
  if (!l) return CUDA_ERROR_OUT_OF_MEMORY;
  emu_jit_read(&l->jit, count, options, values);
  *state = l;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuLinkAddData_v2(CUlinkState l, int type, const void *data, size_t bytes, const char *name,
                                     unsigned count, int *options, void **values) {
  EMU_CALL("cuLinkAddData_v2", true);
  enum { CUBIN = 0, PTX = 1 };
  (void)name, (void)count, (void)options, (void)values;
  if (!emu_object_valid(l, EMU_LINK)) return CUDA_ERROR_INVALID_HANDLE;
  if (!data || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != PTX) return emu_fail(CUDA_ERROR_INVALID_IMAGE, "only PTX can be linked");
  size_t length = strnlen(data, bytes);
  char *grown = realloc(l->texts, l->bytes + length + 1);
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(grown + l->bytes, data, length);
  grown[l->bytes + length] = '\0';
  l->texts = grown;
  const char *text = grown + l->bytes;
  char message[512];
  ptx_program program = {0};
  CUresult result = ptx_parse(text, length, &program, message);
  if (result == CUDA_SUCCESS) result = check_target(&program, message);
  ptx_program_free(&program);
  emu_jit_write(&l->jit, message, "");
  if (result != CUDA_SUCCESS) return emu_fail(result, "%s", message);
  l->bytes += length + 1;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuLinkComplete(CUlinkState l, void **cubin, size_t *bytes) {
  EMU_CALL("cuLinkComplete", true);
  if (!emu_object_valid(l, EMU_LINK)) return CUDA_ERROR_INVALID_HANDLE;
  size_t size;
  if (!cubin || l->bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  free(l->image);
  l->image = emu_image_make(l->texts, l->bytes, &size);
  if (!l->image) return CUDA_ERROR_OUT_OF_MEMORY;
  *cubin = l->image;
  if (bytes) *bytes = size;
  emu_jit_write(&l->jit, "", "");
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuLinkDestroy(CUlinkState l) {
  EMU_CALL("cuLinkDestroy", true);
  if (!emu_object_valid(l, EMU_LINK)) return CUDA_ERROR_INVALID_HANDLE;
  emu_link_destroy(l);
  return CUDA_SUCCESS;
}
