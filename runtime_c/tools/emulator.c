/* Which device an emulator has to be for a bundle. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

/* What it can be, by the generation of their code. */
static const struct {
  long sm;
  const char *name;
} devices[] = {{62, "jetson-tx2"}, {87, "jetson-orin"}, {90, "h200"}};

enum { DEVICES = sizeof devices / sizeof devices[0] };

/* "sm_62" */
static const char *name_for(const char *device) {
  long needed = strncmp(device, "sm_", 3) == 0 ? strtol(device + 3, NULL, 10) : 0;
  size_t i = 0;
  while (i + 1 < DEVICES && devices[i].sm < needed) i++;
  return devices[i].name;
}

static bool emulate(const edgert_bundle *bundle, const char *target, edgert_session_options *options) {
  edgert_program_info info;
  for (uint32_t i = 0; i < edgert_bundle_program_count(bundle); i++) {
    if (edgert_bundle_program(bundle, i, &info)) return fail_library();
    if (!*info.device || (target && strcmp(target, info.target) != 0)) continue;
    options->target = info.target;
    options->emulate = 1;
    if (!options->cuda_library && !getenv("EDGERT_CUDA_LIBRARY")) options->cuda_library = "libcuda-emulator.so";
    return setenv("EDGERT_EMULATOR_DEVICE", name_for(info.device), 0) == 0 || fail("the environment is full");
  }
  return fail(
      "--emulate\nexpected a program for a device%s%s, got none\nPack one: edgert pack model.onnx --target jetson",
      target ? " of target " : "", target ? target : "");
}

bool emulator_choose(const edgert_bundle *bundle, const arguments *a, edgert_session_options *options) {
  options->target = a->target;
  options->allow_native = a->allow_native;
  options->cuda_library = a->cuda_library;
  options->code_cache = a->code_cache;
  return !a->emulate || emulate(bundle, a->target, options);
}
