/* Finding a device that fits, its primary context, and a stream. */
#include <stdio.h>
#include <string.h>

#include "backends/cuda/internal.h"
#include "base/alloc.h"

enum {
  MAX_THREADS_PER_BLOCK = 1,
  MAX_GRID_X = 5,
  INTEGRATED = 18,
  CAPABILITY_MAJOR = 75,
  CAPABILITY_MINOR = 76,
  NON_BLOCKING = 1, /* of streams: does not wait for the default stream */
  NO_TIMING = 2,    /* of events */
};

edgert_status ert_device_packed(const char *device, int *out) {
  char end;
  if (sscanf(device, "sm_%3d%c", out, &end) == 1 && *out >= 10) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_MALFORMED, "device of the program", "sm_ and a number", ert_format("'%.40s'", device).s);
}

/* Machine code: for exactly this device on Tegra, else for its generation up to it. PTX: for all that came later. */
static bool runs_cubin(const ert_device *d) {
  return d->integrated ? d->sm == d->packed : d->sm / 10 == d->packed / 10 && d->sm >= d->packed;
}

static bool fits(const ert_device *d, const ert_device_request *request) {
  for (uint32_t i = 0; i < request->n_codes; i++) {
    const ert_code *code = &request->codes[i];
    if (!(code->ptx && d->sm >= d->packed) && !(code->cubin && runs_cubin(d))) return false;
  }
  return d->sm >= d->packed;
}

static edgert_status read_attribute(ert_device *d, int attribute, int *value) {
  ERT_DRIVER_TRY(&d->driver, ert_format("attribute %d of the device", attribute).s, cuDeviceGetAttribute, value,
                 attribute, d->number);
  return EDGERT_OK;
}

static edgert_status describe(ert_device *d) {
  int major = 0, minor = 0, integrated = 0, value = 0;
  ERT_DRIVER_TRY(&d->driver, "name of the device", cuDeviceGetName, d->name, (int)sizeof d->name, d->number);
  d->name[sizeof d->name - 1] = '\0';
  ERT_TRY(read_attribute(d, CAPABILITY_MAJOR, &major));
  ERT_TRY(read_attribute(d, CAPABILITY_MINOR, &minor));
  ERT_TRY(read_attribute(d, INTEGRATED, &integrated));
  ERT_TRY(read_attribute(d, MAX_THREADS_PER_BLOCK, &value));
  d->sm = major * 10 + minor;
  d->integrated = integrated != 0;
  d->most_threads = (uint32_t)value;
  for (int axis = 0; axis < 3; axis++) {
    ERT_TRY(read_attribute(d, MAX_GRID_X + axis, &value));
    d->most_grid[axis] = (uint32_t)value;
  }
  return EDGERT_OK;
}

/* The first device that fits becomes d's. */
static edgert_status find(ert_device *d, const ert_device_request *request) {
  int count = 0;
  ert_text seen = {""};
  ERT_TRY(ert_device_packed(request->device, &d->packed));
  ERT_TRY(ert_driver_open(request->library, request->emulate, &d->driver));
  ERT_DRIVER_TRY(&d->driver, "version of the driver", cuDriverGetVersion, &d->version);
  ERT_DRIVER_TRY(&d->driver, "number of devices", cuDeviceGetCount, &count);
  for (int i = 0; i < count; i++) {
    ERT_DRIVER_TRY(&d->driver, ert_format("device %d", i).s, cuDeviceGet, &d->number, i);
    ERT_TRY(describe(d));
    if (fits(d, request)) return EDGERT_OK;
    seen = ert_format("%.180s%s%.60s (sm_%d)", seen.s, i ? ", " : "", d->name, d->sm);
  }
  return ert_fail(EDGERT_ERROR_DEVICE_MISSING, ert_format("program packed for sm_%d", d->packed).s,
                  ert_format("a device sm_%d%s", d->packed, " or one that runs its PTX").s, count ? seen.s : "none");
}

edgert_status ert_device_fits(const ert_device_request *request) {
  ert_device device = {.status = EDGERT_OK};
  edgert_status status = find(&device, request);
  ert_driver_close(&device.driver);
  return status;
}

edgert_status ert_device_enter(ert_device *device) {
  ERT_DRIVER_TRY(&device->driver, "entering the device's context", cuCtxPushCurrent_v2, device->context);
  return EDGERT_OK;
}

void ert_device_leave(ert_device *device) {
  CUcontext popped;
  (void)device->driver.cuCtxPopCurrent_v2(&popped);
}

static edgert_status fill(ert_device *d, const ert_device_request *request) {
  ERT_DRIVER_TRY(&d->driver, "stream of the session", cuStreamCreate, &d->stream, NON_BLOCKING);
  ERT_DRIVER_TRY(&d->driver, "events of the session", cuEventCreate, &d->ran, NO_TIMING);
  ERT_DRIVER_TRY(&d->driver, "events of the session", cuEventCreate, &d->met, NO_TIMING);
  ERT_TRY(ert_modules_load(d, request));
  return ert_device_allocate(d, request->arena_bytes, "device arena", &d->arena);
}

static edgert_status open(ert_device *d, const ert_device_request *request) {
  ERT_TRY(find(d, request));
  ERT_DRIVER_TRY(&d->driver, ert_format("primary context of %s", d->name).s, cuDevicePrimaryCtxRetain, &d->context,
                 d->number);
  ERT_TRY(ert_device_enter(d));
  edgert_status status = fill(d, request);
  ert_device_leave(d);
  return status;
}

edgert_status ert_device_open(const ert_device_request *request, ert_device **out) {
  *out = NULL;
  void *memory;
  ERT_TRY(ert_allocate(sizeof(ert_device), "device of a session", &memory));
  edgert_status status = open(memory, request);
  if (status == EDGERT_OK)
    *out = memory;
  else
    ert_device_close(memory);
  return status;
}

void ert_device_close(ert_device *device) {
  if (!device) return;
  if (device->context) {
    bool entered = device->driver.cuCtxPushCurrent_v2(device->context) == CUDA_SUCCESS;
    if (device->stream) (void)device->driver.cuStreamSynchronize(device->stream);
    if (device->pending) (void)device->driver.cuEventSynchronize(device->ran);
    ert_runs_free(device);
    ert_modules_unload(device);
    ert_device_free_all(device);
    if (device->ran) (void)device->driver.cuEventDestroy_v2(device->ran);
    if (device->met) (void)device->driver.cuEventDestroy_v2(device->met);
    if (device->stream) (void)device->driver.cuStreamDestroy_v2(device->stream);
    if (entered) ert_device_leave(device);
    (void)device->driver.cuDevicePrimaryCtxRelease_v2(device->number);
  }
  ert_driver_close(&device->driver);
  ert_free(device);
}

uint64_t ert_device_arena(const ert_device *device) { return device->arena; }

int ert_device_number(const ert_device *device) { return device->number; }

void *ert_device_stream(const ert_device *device) { return device->stream; }

const char *ert_device_name(const ert_device *device) { return device->name; }
