/* The kernels launch, put and get: what they prove of a step, and launching it. */
#include "backends/cuda/step.h"

#include <inttypes.h>
#include <string.h>

#include "backends/cuda/run.h"
#include "base/checked.h"

enum { LONGEST_ENTRY = 127, MOST_ENTRIES = 1 << 16, OF_FUNCTION_MOST_THREADS = 0 };

/* The pointers of launch parameters as one buffer. */
enum { PARAMETERS_END = 0, PARAMETERS_BUFFER = 1, PARAMETERS_BYTES = 2 };

static uint32_t count_entries(const char *text) {
  uint32_t n = *text != '\0';
  for (; *text; text++) n += *text == ',';
  return n;
}

/* Takes the first name of the list; false if it is empty or too long. */
static bool next_entry(const char **list, char name[LONGEST_ENTRY + 1]) {
  size_t length = strcspn(*list, ",");
  if (length == 0 || length > LONGEST_ENTRY) return false;
  memcpy(name, *list, length);
  name[length] = '\0';
  *list += length + ((*list)[length] == ',');
  return true;
}

static edgert_status prepare_launch(const ert_prepare *p, const ert_device *d, CUmodule module, const char *name,
                                    const int64_t *grid, int64_t threads, ert_launch *out) {
  CUresult result = d->driver.cuModuleGetFunction(&out->function, module, name);
  if (result == CUDA_ERROR_NOT_FOUND) return ert_reject(p, "entry", "one that the module has", "'%.80s'", name);
  ert_text doing = ert_format("step %" PRIu32 ", node '%.80s': entry '%.80s'", p->step->index, p->step->node, name);
  if (result != CUDA_SUCCESS) return ert_driver_fail(&d->driver, result, "cuModuleGetFunction", doing.s);
  int most = 0;
  ERT_DRIVER_TRY(&d->driver, doing.s, cuFuncGetAttribute, &most, OF_FUNCTION_MOST_THREADS, out->function);
  if (threads > most || threads > d->most_threads)
    return ert_reject(p, "threads of a block", "as many as the entry and the device allow",
                      "%" PRId64 ", at most %d and %" PRIu32, threads, most, d->most_threads);
  out->threads = (uint32_t)threads;
  for (int axis = 0; axis < 3; axis++) {
    if (grid[axis] > d->most_grid[axis])
      return ert_reject(p, "blocks of the grid", "as many as the device allows", "%" PRId64 ", at most %" PRIu32,
                        grid[axis], d->most_grid[axis]);
    out->grid[axis] = (uint32_t)grid[axis];
  }
  return EDGERT_OK;
}

static edgert_status prepare_launches(ert_prepare *p, const char *entries, ert_device_step *s) {
  const int64_t *modules, *grid, *threads;
  char name[LONGEST_ENTRY + 1];
  uint32_t n = s->n_launches;
  ERT_TRY(ert_ints(p, "module", n, 0, (int64_t)s->device->n_modules - 1, &modules));
  ERT_TRY(ert_ints(p, "grid", 3 * n, 1, INT32_MAX, &grid));
  ERT_TRY(ert_ints(p, "threads", n, 1, INT32_MAX, &threads));
  for (uint32_t i = 0; i < n; i++) {
    if (!next_entry(&entries, name))
      return ert_reject(p, "attribute 'entries'", "names of up to 127 characters with commas between", "'%.80s'",
                        entries);
    CUmodule module = s->device->modules[modules[i]];
    ERT_TRY(prepare_launch(p, s->device, module, name, grid + 3 * i, threads[i], &s->launches[i]));
  }
  return EDGERT_OK;
}

static edgert_status expect_on_device(const ert_prepare *p, const ert_tensor *t) {
  if (t->device) return EDGERT_OK;
  return ert_reject(p, "place of an operand", "device memory", "that of '%.80s'", t->name);
}

static edgert_status expect_on_host(const ert_prepare *p, const ert_tensor *t) {
  ERT_TRY(ert_expect_layout(p, t, ERT_LAYOUT_PLANAR));
  if (!t->device && t->compact) return EDGERT_OK;
  return ert_reject(p, "place of an operand", "host memory without gaps", "that of '%.80s'", t->name);
}

/* Room for everything in one block of memory, and what all three kernels have in common. */
static edgert_status begin(ert_prepare *p, ert_device_step **out) {
  const ert_step *step = p->step;
  if (!p->device) return ert_reject(p, "program", "one for a device", "none");
  const ert_attribute *entries = ert_attribute_find(p, "entries");
  uint32_t n = entries ? count_entries(entries->text) : 0, most = step->n_in + step->n_out;
  if (n == 0 || n > MOST_ENTRIES) return ert_reject(p, "attribute 'entries'", "1 to 65536 names", "%" PRIu32, n);
  size_t bytes = sizeof(ert_device_step) + most * sizeof(CUdeviceptr) + n * sizeof(ert_launch);
  void *memory;
  ERT_TRY(ert_state(p, bytes, &memory));
  ert_device_step *s = memory;
  *s = (ert_device_step){.device = p->device, .step = step, .n_launches = n};
  s->pointers = (void *)(s + 1);
  s->launches = (void *)(s->pointers + most);
  p->step->tasks = 1;
  *out = s;
  return prepare_launches(p, entries->text, s);
}

static void add_pointer(ert_device_step *s, CUdeviceptr pointer) { s->pointers[s->n_pointers++] = pointer; }

static CUdeviceptr address_of(const ert_tensor *t) { return (CUdeviceptr)(uintptr_t)t->data; }

static edgert_status stage(ert_device_step *s, const ert_tensor *host) {
  ert_text what = ert_format("staging memory of step %" PRIu32 " for '%.80s'", s->step->index, host->name);
  ERT_TRY(ert_device_allocate_staging(s->device, host->bytes, what.s, &s->staging, &s->staged));
  add_pointer(s, s->staged);
  s->device->staged++;
  return EDGERT_OK;
}

static edgert_status prepare_launch_step(ert_prepare *p) {
  const ert_step *step = p->step;
  ert_device_step *s;
  ERT_TRY(ert_expect_operands(p, 0, UINT32_MAX, 1, UINT32_MAX));
  ERT_TRY(begin(p, &s));
  for (uint32_t i = 0; i < step->n_in; i++) {
    const ert_tensor *t = step->in[i];
    if (!t) continue;
    CUdeviceptr pointer = address_of(t);
    if (t->constant) {
      if (!t->compact) return ert_reject(p, "constant", "no gaps", "the view '%.80s'", t->name);
      ERT_TRY(ert_device_upload(s->device, t, &pointer));
    } else {
      ERT_TRY(expect_on_device(p, t));
    }
    add_pointer(s, pointer);
  }
  for (uint32_t i = 0; i < step->n_out; i++) {
    ERT_TRY(expect_on_device(p, step->out[i]));
    add_pointer(s, address_of(step->out[i]));
  }
  return EDGERT_OK;
}

static edgert_status prepare_put(ert_prepare *p) {
  ert_device_step *s;
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, UINT32_MAX));
  ERT_TRY(expect_on_host(p, p->step->in[0]));
  ERT_TRY(begin(p, &s));
  ERT_TRY(stage(s, p->step->in[0]));
  for (uint32_t i = 0; i < p->step->n_out; i++) {
    ERT_TRY(expect_on_device(p, p->step->out[i]));
    add_pointer(s, address_of(p->step->out[i]));
  }
  return EDGERT_OK;
}

static edgert_status prepare_get(ert_prepare *p) {
  ert_device_step *s;
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ERT_TRY(expect_on_device(p, p->step->in[0]));
  ERT_TRY(expect_on_host(p, p->step->out[0]));
  ERT_TRY(begin(p, &s));
  add_pointer(s, address_of(p->step->in[0]));
  return stage(s, p->step->out[0]);
}

void ert_step_copy_in(const ert_device_step *s) {
  if (!ert_step_is_put(s) || s->bound) return;
  const ert_tensor *t = ert_step_host(s);
  if (t->bytes > 0) memcpy(s->staging, t->data, t->bytes);
}

void ert_step_copy_out(const ert_device_step *s) {
  if (!ert_step_is_get(s) || s->bound) return;
  const ert_tensor *t = ert_step_host(s);
  if (t->bytes > 0) memcpy(t->data, s->staging, t->bytes);
}

static ert_text doing(const ert_device_step *s) {
  return ert_format("step %" PRIu32 ", %s, node '%.80s'", s->step->index, s->step->kernel->name, s->step->node);
}

static edgert_status launch(const ert_device_step *s, CUstream stream) {
  size_t bytes = s->n_pointers * sizeof *s->pointers;
  void *extra[] = {(void *)PARAMETERS_BUFFER, s->pointers, (void *)PARAMETERS_BYTES, &bytes, (void *)PARAMETERS_END};
  for (uint32_t i = 0; i < s->n_launches; i++) {
    const ert_launch *l = &s->launches[i];
    ERT_DRIVER_TRY(&s->device->driver, ert_format("%s, entry %" PRIu32, doing(s).s, i).s, cuLaunchKernel, l->function,
                   l->grid[0], l->grid[1], l->grid[2], l->threads, 1, 1, 0, stream, NULL, extra);
  }
  return EDGERT_OK;
}

edgert_status ert_step_submit(const ert_device_step *s, CUstream stream) {
  const ert_driver *driver = &s->device->driver;
  size_t copied = s->staging && !s->bound && ert_device_copies(s->device) ? ert_step_host(s)->bytes : 0;
  if (copied > 0 && ert_step_is_put(s))
    ERT_DRIVER_TRY(driver, doing(s).s, cuMemcpyHtoDAsync_v2, s->staged, s->staging, copied, stream);
  ERT_TRY(launch(s, stream));
  if (copied > 0 && ert_step_is_get(s))
    ERT_DRIVER_TRY(driver, doing(s).s, cuMemcpyDtoHAsync_v2, s->staging, s->staged, copied, stream);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin_task, int64_t end_task, void *scratch) {
  (void)begin_task, (void)end_task, (void)scratch;
  ert_run_step(step->state);
}

#define FLAGS .run = run, .views = true, .reduced = true, .device = true

const ert_kernel ert_kernel_launch = {.name = "launch", .prepare = prepare_launch_step, FLAGS};
const ert_kernel ert_kernel_put = {.name = "put", .prepare = prepare_put, FLAGS};
const ert_kernel ert_kernel_get = {.name = "get", .prepare = prepare_get, FLAGS};
