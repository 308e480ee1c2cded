/* Runs: steps that follow each other on the device, given to it together. */
#include "backends/cuda/run.h"

#include <string.h>

#include "base/alloc.h"

static edgert_status add_run(ert_device *device, ert_step *const *steps, uint32_t count) {
  void *memory;
  size_t bytes = sizeof(ert_run) + count * (sizeof(ert_piece) + sizeof(ert_device_step *));
  ERT_TRY(ert_allocate(bytes, "run of device steps", &memory));
  ert_run *run = memory;
  *run = (ert_run){.next = device->runs, .pieces = (void *)(run + 1)};
  run->whole = (ert_piece){.steps = (void *)(run->pieces + count), .n_steps = count};
  device->runs = run;
  for (uint32_t i = 0; i < count; i++) {
    run->whole.steps[i] = steps[i]->state;
    run->whole.steps[i]->run = run;
  }
  return ert_piece_capture(&run->whole);
}

/* The steps from `first` on that are one piece. */
static ert_piece piece_at(const ert_run *run, uint32_t first) {
  ert_device_step **steps = run->whole.steps + first;
  uint32_t n = 1;
  if (!steps[0]->staging)
    while (first + n < run->whole.n_steps && !steps[n]->staging) n++;
  return (ert_piece){.steps = steps, .n_steps = n};
}

edgert_status ert_run_cut(ert_run *run) {
  edgert_status status = EDGERT_OK;
  if (run->n_pieces > 0) return EDGERT_OK;
  uint32_t n = 0;
  for (uint32_t first = 0; first < run->whole.n_steps && status == EDGERT_OK; first += run->pieces[n++].n_steps) {
    run->pieces[n] = piece_at(run, first);
    if (!run->pieces[n].steps[0]->staging) status = ert_piece_capture(&run->pieces[n]);
  }
  if (status == EDGERT_OK)
    run->n_pieces = n;
  else
    while (n > 0) ert_piece_free(&run->pieces[--n]);
  return status;
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
    for (uint32_t i = 0; i < run->n_pieces; i++) ert_piece_free(&run->pieces[i]);
    ert_piece_free(&run->whole);
    ert_free(run);
  }
  device->runs = NULL;
}

static edgert_status wait(ert_device *device, const char *what) {
  ERT_DRIVER_TRY(&device->driver, what, cuStreamSynchronize, device->present);
  return EDGERT_OK;
}

static edgert_status begin_run(const ert_run *run) {
  const ert_piece *whole = &run->whole;
  CUstream stream = whole->steps[0]->device->present;
  for (uint32_t i = 0; i < whole->n_steps; i++) ert_step_copy_in(whole->steps[i]);
  if (run->bound == 0) return ert_piece_submit(whole, stream);
  for (uint32_t i = 0; i < run->n_pieces; i++) ERT_TRY(ert_piece_submit(&run->pieces[i], stream));
  return EDGERT_OK;
}

static edgert_status end_run(const ert_run *run) {
  const ert_piece *whole = &run->whole;
  bool waited = false;
  for (uint32_t i = 0; i < whole->n_steps; i++) {
    const ert_device_step *s = whole->steps[i];
    if (!ert_step_is_get(s) || s->bound) continue;
    if (!waited) ERT_TRY(wait(s->device, ert_piece_text(whole).s));
    waited = true;
    ert_step_copy_out(s);
  }
  return EDGERT_OK;
}

static edgert_status run_alone(const ert_device_step *s) {
  ert_step_copy_in(s);
  ERT_TRY(ert_step_submit(s, s->device->present));
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

/* Staging memory must have been read, and the arena not be in use any more where the next run works. */
static edgert_status follow_last_run(ert_device *d) {
  if (!d->pending) return EDGERT_OK;
  if (d->staged > 0) {
    ERT_DRIVER_TRY(&d->driver, "the end of the last run", cuEventSynchronize, d->ran);
    d->pending = false;
  } else if (d->last != d->present) {
    ERT_DRIVER_TRY(&d->driver, "the end of the last run", cuStreamWaitEvent, d->present, d->ran, 0);
  }
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

/* Takes the outcome of what was done within the context, and leaves it. */
static edgert_status leave(ert_device *device, edgert_status status) {
  device->status = status;
  ert_device_leave(device);
  if (status == EDGERT_ERROR_DEVICE_LOST) device->why = reason();
  return status;
}

edgert_status ert_device_begin(ert_device *device, void *stream) {
  if (device->status == EDGERT_ERROR_DEVICE_LOST)
    return ert_fail(EDGERT_ERROR_DEVICE_LOST, "a run before this one", NULL, device->why.s);
  ERT_TRY(ert_device_enter(device));
  device->status = EDGERT_OK;
  device->present = stream;
  edgert_status status = follow_last_run(device);
  return status == EDGERT_OK ? EDGERT_OK : leave(device, status);
}

static edgert_status record(ert_device *device) {
  ERT_DRIVER_TRY(&device->driver, "the end of the run", cuEventRecord, device->ran, device->present);
  device->last = device->present;
  device->pending = true;
  return EDGERT_OK;
}

edgert_status ert_device_end(ert_device *device, bool waits, edgert_status status) {
  if (device->status != EDGERT_OK) status = device->status;
  if (status == EDGERT_OK) status = waits ? wait(device, "the end of the run") : record(device);
  if (status == EDGERT_OK && waits) device->pending = false;
  return leave(device, status);
}

static edgert_status order(ert_device *device, CUstream before, CUstream after) {
  ERT_DRIVER_TRY(&device->driver, "the stream that is waited for", cuEventRecord, device->met, before);
  ERT_DRIVER_TRY(&device->driver, "the stream that waits", cuStreamWaitEvent, after, device->met, 0);
  return EDGERT_OK;
}

edgert_status ert_device_order(ert_device *device, void *before, void *after) {
  ERT_TRY(ert_device_enter(device));
  edgert_status status = order(device, before, after);
  ert_device_leave(device);
  return status;
}

void ert_device_stepwise(ert_device *device, bool stepwise) { device->stepwise = stepwise; }
