/* The caller's buffers in memory of the device: instead of staging memory, or copied where the processor uses them, too. */
#include "backends/cuda/run.h"

bool ert_device_moves(const ert_step *step, const ert_tensor *host) {
  return (step->kernel == &ert_kernel_put && step->in[0] == host) ||
         (step->kernel == &ert_kernel_get && step->out[0] == host);
}

edgert_status ert_device_bind(ert_step *step, uint64_t address) {
  ert_device_step *s = step->state;
  if (address && !s->bound) {
    ERT_TRY(ert_device_enter(s->device));
    edgert_status status = ert_run_cut(s->run);
    ert_device_leave(s->device);
    ERT_TRY(status);
    s->run->bound++;
    s->device->staged--;
  } else if (!address && s->bound) {
    s->run->bound--;
    s->device->staged++;
  }
  s->bound = address;
  s->pointers[ert_step_is_put(s) ? 0 : s->n_pointers - 1] = address ? address : s->staged;
  return EDGERT_OK;
}

edgert_status ert_device_mirror(ert_device *device, size_t bytes, const char *what, void **out) {
  ERT_TRY(ert_device_enter(device));
  edgert_status status = ert_device_pin(device, bytes, what, out);
  ert_device_leave(device);
  if (status == EDGERT_OK) device->staged++;
  return status;
}

edgert_status ert_device_fetch(ert_device *device, void *host, uint64_t address, size_t bytes, const char *what) {
  ERT_DRIVER_TRY(&device->driver, what, cuMemcpyDtoHAsync_v2, host, address, bytes, device->present);
  ERT_DRIVER_TRY(&device->driver, what, cuStreamSynchronize, device->present);
  return EDGERT_OK;
}

edgert_status ert_device_store(ert_device *device, uint64_t address, const void *host, size_t bytes, const char *what) {
  ERT_DRIVER_TRY(&device->driver, what, cuMemcpyHtoDAsync_v2, address, host, bytes, device->present);
  return EDGERT_OK;
}
