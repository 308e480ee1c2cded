/* What a program asks of a device, and what it has for it. */
#include "session/device.h"

#include "base/alloc.h"
#include "base/checked.h"

static const uint8_t *code_at(const edgert_bundle *bundle, uint32_t segment, uint64_t offset) {
  if (segment == UINT32_MAX) return NULL;
  return ert_segment_data(bundle, ert_item(ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS), segment)) + offset;
}

static ert_code read_code(const edgert_bundle *bundle, ert_table module) {
  return (ert_code){
      .cubin = code_at(bundle, ert_u32(module, ERT_FIELD_MODULE_CUBIN_SEGMENT, UINT32_MAX),
                       ert_u64(module, ERT_FIELD_MODULE_CUBIN_OFFSET, 0)),
      .ptx = code_at(bundle, ert_u32(module, ERT_FIELD_MODULE_PTX_SEGMENT, UINT32_MAX),
                     ert_u64(module, ERT_FIELD_MODULE_PTX_OFFSET, 0)),
      .cubin_bytes = ert_u64(module, ERT_FIELD_MODULE_CUBIN_BYTES, 0),
      .ptx_stored = ert_u64(module, ERT_FIELD_MODULE_PTX_STORED, 0),
      .ptx_bytes = ert_u64(module, ERT_FIELD_MODULE_PTX_BYTES, 0),
  };
}

edgert_status ert_device_request_of(const edgert_bundle *bundle, ert_table program,
                                    const edgert_session_options *options, ert_device_request *out) {
  ert_vector modules = ert_items(program, ERT_FIELD_PROGRAM_MODULES);
  size_t bytes;
  void *memory;
  if (!ert_multiply(modules.count, sizeof(ert_code), &bytes)) bytes = SIZE_MAX; /* which the allocation refuses */
  ERT_TRY(ert_allocate(bytes, "modules of a program", &memory));
  ert_code *codes = memory;
  for (uint32_t i = 0; i < modules.count; i++) codes[i] = read_code(bundle, ert_item(modules, i));
  *out = (ert_device_request){
      .library = options->cuda_library,
      .emulate = options->emulate != 0,
      .device = ert_string(program, ERT_FIELD_PROGRAM_DEVICE),
      .codes = codes,
      .n_codes = modules.count,
      .arena_bytes = ert_u64(program, ERT_FIELD_PROGRAM_DEVICE_BYTES, 0),
      .code_cache = options->code_cache,
      .progress = options->progress,
      .user = options->progress_user,
  };
  return EDGERT_OK;
}

void ert_device_describe(const edgert_bundle *bundle, ert_table program, edgert_program_info *out) {
  ert_vector steps = ert_items(program, ERT_FIELD_PROGRAM_STEPS);
  ert_vector modules = ert_items(program, ERT_FIELD_PROGRAM_MODULES);
  for (uint32_t i = 0; i < steps.count; i++) {
    const ert_kernel *kernel = ert_kernel_find(ert_string(ert_item(steps, i), ERT_FIELD_STEP_KERNEL));
    out->device_steps += kernel && kernel->device;
  }
  out->modules = modules.count;
  for (uint32_t i = 0; i < modules.count; i++) {
    ert_code code = read_code(bundle, ert_item(modules, i));
    out->cubin_bytes += code.cubin ? code.cubin_bytes : 0;
    out->ptx_bytes += code.ptx ? code.ptx_stored : 0;
  }
}
