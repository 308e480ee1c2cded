/* Runs one step of a kernel on the caller's buffers, instruction set and partition; what harness.py calls. */
#include <string.h>

#include "base/alloc.h"
#include "base/kernel.h"
#include "kernels/simd/simd.h"

/* The names of the instruction sets this machine executes, best first; NULL past the last. */
const char *ert_test_isa(uint32_t index);

/* Whether the kernel takes operands that are views. */
bool ert_test_views(const char *kernel);

/* Prepares the step for `workers` and runs its tasks in pieces of `piece` tasks (0: all at once), each with fresh
 * scratch. Without `isa` the kernel gets no vector loops. `in_place`: the inputs that the first output may lie over. */
edgert_status ert_test_step(const char *kernel, const char *isa, ert_tensor **in, uint32_t n_in, ert_tensor **out,
                            uint32_t n_out, const ert_attribute *attributes, uint32_t n_attributes, uint32_t workers,
                            int64_t piece, uint32_t *in_place);

const char *ert_test_isa(uint32_t index) {
  const ert_simd *const *table = ert_simd_available();
  while (*table && index--) table++;
  return *table ? (*table)->name : NULL;
}

bool ert_test_views(const char *kernel) {
  const ert_kernel *found = ert_kernel_find(kernel);
  return found && found->views;
}

edgert_status ert_test_step(const char *kernel, const char *isa, ert_tensor **in, uint32_t n_in, ert_tensor **out,
                            uint32_t n_out, const ert_attribute *attributes, uint32_t n_attributes, uint32_t workers,
                            int64_t piece, uint32_t *in_place) {
  ert_step step = {.kernel = ert_kernel_find(kernel),
                   .in = (const ert_tensor *const *)in,
                   .out = out,
                   .attributes = attributes,
                   .n_in = n_in,
                   .n_out = n_out,
                   .n_attributes = n_attributes,
                   .node = "test"};
  if (!step.kernel) return ert_fail(EDGERT_ERROR_UNKNOWN_KERNEL, kernel, "a registered kernel", "none");
  ert_prepare prepare = {.step = &step, .simd = isa ? ert_simd_find(isa) : NULL, .workers = workers};
  edgert_status status = step.kernel->prepare(&prepare);
  *in_place = prepare.in_place;
  for (int64_t begin = 0; status == EDGERT_OK && begin < step.tasks;) {
    const int64_t end = piece > 0 && step.tasks - begin > piece ? begin + piece : step.tasks;
    void *scratch = NULL;
    status = ert_allocate(step.scratch_bytes, "scratch", &scratch);
    if (status == EDGERT_OK) {
      memset(scratch, 0xA5, step.scratch_bytes);
      step.kernel->run(&step, begin, end, scratch);
    }
    ert_free(scratch);
    begin = end;
  }
  ert_free(step.state);
  return status;
}
