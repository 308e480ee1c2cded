/* Runs: steps that follow each other on the device, given to it together. */
#include "backends/cuda/run.h"

#include <string.h>

#include "base/alloc.h"

static edgert_status add_run(ert_device *device, ert_step *const *steps, uint32_t count) {
  void *memory;
  ERT_TRY(ert_allocate(sizeof(ert_run) + count * sizeof(ert_device_step *), "run of device steps", &memory));
  ert_run *run = memory;
  *run = (ert_run){.next = device->runs, .whole = {.steps = (void *)(run + 1), .n_steps = count}};
  device->runs = run;
  for (uint32_t i = 0; i < count; i++) {
    run->whole.steps[i] = steps[i]->state;
    run->whole.steps[i]->run = run;
  }
  return ert_piece_capture(&run->whole);
}

/* What a `get` writes is on the host only when its run has ended, so a `put` behind one begins a run. */
edgert_status ert_device_gather(ert_device *device, ert_step *const *steps, uint32_t count) {
  uint32_t first = 0;
  bool got = false;
  for (uint32_t i = 0; i < count; i++) {
    if (got && steps[i]->kernel == &ert_kernel_put) {
      ERT_TRY(add_run(device, steps + first, i - first));
      first = i;
      got = false;
    }
    got |= steps[i]->kernel == &ert_kernel_get;
  }
  return first < count ? add_run(device, steps + first, count - first) : EDGERT_OK;
}

void ert_runs_free(ert_device *device) {
  for (ert_run *run = device->runs, *next; run; run = next) {
    next = run->next;
    ert_piece_free(&run->whole);
    ert_free(run);
  }
  device->runs = NULL;
}

static edgert_status wait(ert_device *device, const char *what) {
  ERT_DRIVER_TRY(&device->driver, what, cuStreamSynchronize, device->stream);
  return EDGERT_OK;
}

static edgert_status begin_run(const ert_run *run) {
  const ert_piece *whole = &run->whole;
  for (uint32_t i = 0; i < whole->n_steps; i++) ert_step_copy_in(whole->steps[i]);
  return ert_piece_submit(whole, whole->steps[0]->device->stream);
}

static edgert_status end_run(const ert_run *run) {
  const ert_piece *whole = &run->whole;
  bool waited = false;
  for (uint32_t i = 0; i < whole->n_steps; i++) {
    const ert_device_step *s = whole->steps[i];
    if (s->step->kernel != &ert_kernel_get) continue;
    if (!waited) ERT_TRY(wait(s->device, ert_piece_text(whole).s));
    waited = true;
    ert_step_copy_out(s);
  }
  return EDGERT_OK;
}

static edgert_status run_alone(const ert_device_step *s) {
  ert_step_copy_in(s);
  ERT_TRY(ert_step_submit(s, s->device->stream));
  ERT_TRY(wait(s->device, ert_format("step %u, node '%.80s'", s->step->index, s->step->node).s));
  ert_step_copy_out(s);
  return EDGERT_OK;
}

void ert_run_step(ert_device_step *s) {
  ert_device *device = s->device;
  const ert_run *run = s->run;
  if (device->status != EDGERT_OK) return;
  if (device->stepwise) {
    device->status = run_alone(s);
    return;
  }
  if (s == run->whole.steps[0]) device->status = begin_run(run);
  if (s == run->whole.steps[run->whole.n_steps - 1] && device->status == EDGERT_OK) device->status = end_run(run);
}

edgert_status ert_device_begin(ert_device *device) {
  if (device->status == EDGERT_ERROR_DEVICE_LOST)
    return ert_fail(EDGERT_ERROR_DEVICE_LOST, "a run before this one", NULL, device->why.s);
  ERT_TRY(ert_device_enter(device));
  device->status = EDGERT_OK;
  return EDGERT_OK;
}

/* The last message's lines between its sentence and its hint: where, and what the driver said. */
static ert_text reason(void) {
  const char *begin = strchr(edgert_last_error(), '\n'), *end = begin ? strrchr(begin, '\n') : NULL;
  ert_text text = {""};
  if (end > begin) text = ert_format("%.*s", (int)(end - begin - 1), begin + 1);
  for (char *c = text.s; (c = strchr(c, '\n'));) *c = ' ';
  return text;
}

edgert_status ert_device_end(ert_device *device, edgert_status status) {
  if (device->status == EDGERT_OK) device->status = status;
  if (device->status == EDGERT_OK) device->status = wait(device, "the end of the run");
  ert_device_leave(device);
  if (device->status == EDGERT_ERROR_DEVICE_LOST) device->why = reason();
  return device->status;
}

void ert_device_stepwise(ert_device *device, bool stepwise) { device->stepwise = stepwise; }
