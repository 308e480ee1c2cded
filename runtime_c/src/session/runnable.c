/* Whether a program can run on this machine, and if not, why. */
#include <inttypes.h>
#include <string.h>

#include "backends/cuda/driver.h"
#include "base/alloc.h"
#include "platform/cpu.h"
#include "session/device.h"
#include "session/session.h"

/* The processor's steps are portable kernels, so where the device is emulated they may run anywhere. */
static edgert_status expect_arch(ert_table program, const edgert_session_options *options) {
  const char *target = ert_string(program, ERT_FIELD_PROGRAM_TARGET),
             *arch = ert_string(program, ERT_FIELD_PROGRAM_ARCH);
  if (strcmp(arch, ert_cpu_arch) == 0) return EDGERT_OK;
  if (options->emulate && ert_program_has_device(program)) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_NO_PROGRAM, ert_format("program '%.80s'", target).s,
                  ert_format("a machine with %.40s", arch).s, ert_cpu_arch);
}

static edgert_status expect_kernels(ert_table program) {
  ert_vector steps = ert_items(program, ERT_FIELD_PROGRAM_STEPS);
  const char *known = NULL; /* equal texts are stored once, mostly */
  for (uint32_t i = 0; i < steps.count; i++) {
    const char *kernel = ert_string(ert_item(steps, i), ERT_FIELD_STEP_KERNEL);
    if (kernel == known) continue;
    known = kernel;
    if (!ert_kernel_find(kernel))
      return ert_fail(EDGERT_ERROR_UNKNOWN_KERNEL,
                      ert_format("program '%.80s', step %" PRIu32, ert_string(program, ERT_FIELD_PROGRAM_TARGET), i).s,
                      NULL, ert_format("kernel '%.80s'", kernel).s);
  }
  return EDGERT_OK;
}

static edgert_status expect_device(const edgert_bundle *bundle, ert_table program,
                                   const edgert_session_options *options) {
  if (!ert_program_has_device(program)) return EDGERT_OK;
  if (!options->allow_native && !options->emulate)
    return ert_fail(EDGERT_ERROR_NATIVE_CODE,
                    ert_format("program '%.80s' for %.40s", ert_string(program, ERT_FIELD_PROGRAM_TARGET),
                               ert_string(program, ERT_FIELD_PROGRAM_DEVICE))
                        .s,
                    NULL, NULL);
  ert_device_request request;
  ERT_TRY(ert_device_request_of(bundle, program, options, &request));
  edgert_status status = ert_device_fits(&request);
  ert_free((void *)(uintptr_t)request.codes);
  return status;
}

edgert_status ert_program_runnable(const edgert_bundle *bundle, uint32_t index, const edgert_session_options *options) {
  ert_table program = ert_item(ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS), index);
  ERT_TRY(expect_arch(program, options));
  ERT_TRY(ert_program_verify(bundle, index));
  ERT_TRY(expect_kernels(program));
  return expect_device(bundle, program, options);
}

edgert_status edgert_bundle_program(const edgert_bundle *bundle, uint32_t index, edgert_program_info *out) {
  ERT_TRY(ert_expect(bundle, "bundle"));
  ERT_TRY(ert_expect(out, "out"));
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS);
  if (index >= programs.count)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "index", ert_format("below %" PRIu32, programs.count).s,
                    ert_format("%" PRIu32, index).s);
  ERT_TRY(ert_program_verify(bundle, index));
  ert_table program = ert_item(programs, index);
  edgert_session_options options = {.struct_size = sizeof options, .allow_native = 1};
  *out = (edgert_program_info){
      .target = ert_string(program, ERT_FIELD_PROGRAM_TARGET),
      .arch = ert_string(program, ERT_FIELD_PROGRAM_ARCH),
      .device = ert_string(program, ERT_FIELD_PROGRAM_DEVICE),
      .cores = ert_u32(program, ERT_FIELD_PROGRAM_CORES, 1),
      .steps = ert_items(program, ERT_FIELD_PROGRAM_STEPS).count,
      .arena_bytes = ert_u64(program, ERT_FIELD_PROGRAM_ARENA_BYTES, 0),
      .device_bytes = ert_u64(program, ERT_FIELD_PROGRAM_DEVICE_BYTES, 0),
      .runnable = ert_program_runnable(bundle, index, &options),
  };
  ert_device_describe(bundle, program, out);
  return EDGERT_OK;
}
