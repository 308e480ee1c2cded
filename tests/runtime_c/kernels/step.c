/* Runs one step of a kernel on the caller's buffers, instruction set and partition; what harness.py calls. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/kernel.h"
#include "base/made.h"
#include "base/room.h"
#include "kernels/simd/simd.h"
#include "platform/code.h"

/* The names of the instruction sets this machine executes, best first; NULL past the last. */
const char *ert_test_isa(uint32_t index);

/* Whether the kernel takes operands that are views. */
bool ert_test_views(const char *kernel);

/* Which memory for instructions a step gets: for those of each task, also for those of all tasks, or none. */
typedef enum test_code { CODE_OF_TASKS, CODE_OF_ALL, CODE_NONE } test_code;

/* Prepares the step for `workers` and runs its tasks in pieces of `piece` tasks (0: all at once), each with fresh
 * scratch. Without `isa` the kernel gets no vector loops. `in_place`: the inputs that the first output may lie over. */
edgert_status ert_test_step(const char *kernel, const char *isa, ert_tensor **in, uint32_t n_in, ert_tensor **out,
                            uint32_t n_out, const ert_attribute *attributes, uint32_t n_attributes, uint32_t workers,
                            int64_t piece, test_code code, uint32_t *in_place);

const char *ert_test_isa(uint32_t index) {
  const ert_simd *const *table = ert_simd_available();
  while (*table && index--) table++;
  return *table ? (*table)->name : NULL;
}

bool ert_test_views(const char *kernel) {
  const ert_kernel *found = ert_kernel_find(kernel);
  return found && found->views;
}

/* Makes the x87 registers free; and whether they are: C's functions need them, and MMX registers are the same. */
#if defined(__x86_64__)
static void free_x87(void) { __asm__ volatile("emms"); }
static bool x87_is_free(void) {
  struct {
    uint32_t control, status, tags, rest[4];
  } state;
  __asm__ volatile("fnstenv %0\n\tfldenv %0" : "=m"(state));
  return (state.tags & 0xffff) == 0xffff;
}
#else
static void free_x87(void) {}
static bool x87_is_free(void) { return true; }
#endif

/* Runs tasks with memory for their code, if they want that and may have it. */
static edgert_status run_with_code(ert_step *step, int64_t begin, int64_t end, uint8_t *scratch, test_code of) {
  if (of == CODE_NONE || step->made || step->code_bytes == 0) {
    step->kernel->run(step, begin, end, scratch);
    return EDGERT_OK;
  }
  const size_t bytes = (step->code_bytes + ERT_CODE_UNIT - 1) / ERT_CODE_UNIT * ERT_CODE_UNIT;
  ert_pages code;
  if (ert_code_open(scratch, bytes, 1, &code, &step->code, &step->executable)) {
    uint8_t *memory = scratch + step->code;
    memset(memory, 0xCC, bytes); /* traps */
    step->kernel->run(step, begin, end, scratch);
    for (size_t i = step->code_bytes; i < bytes; i++)
      if (memory[i] != 0xCC) abort(); /* more code than asked for */
  }
  ert_pages_close(code);
  return step->executable ? EDGERT_OK : ert_fail(EDGERT_ERROR_OUT_OF_MEMORY, "memory to execute", "some", "none");
}

edgert_status ert_test_step(const char *kernel, const char *isa, ert_tensor **in, uint32_t n_in, ert_tensor **out,
                            uint32_t n_out, const ert_attribute *attributes, uint32_t n_attributes, uint32_t workers,
                            int64_t piece, test_code code, uint32_t *in_place) {
  ert_step step = {.kernel = ert_kernel_find(kernel),
                   .in = (const ert_tensor *const *)in,
                   .out = out,
                   .attributes = attributes,
                   .n_in = n_in,
                   .n_out = n_out,
                   .n_attributes = n_attributes,
                   .node = "test"};
  if (!step.kernel) return ert_fail(EDGERT_ERROR_UNKNOWN_KERNEL, kernel, "a registered kernel", "none");
  ert_room room = {.count = 0};
  ert_pages made = {.data = NULL};
  ert_prepare prepare = {.step = &step, .room = &room, .simd = isa ? ert_simd_find(isa) : NULL, .workers = workers};
  edgert_status status = step.kernel->prepare(&prepare);
  const bool once = code == CODE_OF_ALL && step.made_bytes > 0 && step.made_bytes <= ERT_MADE_MOST;
  if (status == EDGERT_OK && once && ert_made_open(step.made_bytes, &made)) step.made = made.data;
  if (status == EDGERT_OK) status = ert_prove(&prepare);
  if (!ert_made_seal(made)) status = ert_fail(EDGERT_ERROR_OUT_OF_MEMORY, "memory to execute", "some", "none");
  *in_place = prepare.in_place;
  free_x87();
  for (int64_t begin = 0; status == EDGERT_OK && begin < step.tasks;) {
    const int64_t end = piece > 0 && step.tasks - begin > piece ? begin + piece : step.tasks;
    void *scratch = NULL;
    status = ert_allocate(step.scratch_bytes, "scratch", &scratch);
    if (status == EDGERT_OK) {
      memset(scratch, 0xA5, step.scratch_bytes);
      status = run_with_code(&step, begin, end, scratch, code);
    }
    ert_free(scratch);
    begin = end;
  }
  ert_room_close(&room);
  ert_pages_close(made);
  if (!x87_is_free()) return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, kernel, "free x87 registers", "registers in use");
  return status;
}
