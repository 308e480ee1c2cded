/* Memory of a device: zeroed blocks, staging memory, constants. All of it lives as long as the device. */
#include "backends/cuda/internal.h"
#include "base/alloc.h"

enum { PINNED = 0, MAPPED = 2 }; /* of cuMemHostAlloc; MAPPED: the device sees it */

static edgert_status add_block(ert_device *device, ert_block **out) {
  void *memory;
  ERT_TRY(ert_allocate(sizeof(ert_block), "list of device memory", &memory));
  *out = memory;
  (*out)->next = device->blocks;
  device->blocks = *out;
  return EDGERT_OK;
}

static ert_text doing(const char *what, size_t bytes) { return ert_format("%.120s, %zu bytes", what, bytes); }

static size_t at_least_one(size_t bytes) { return bytes ? bytes : 1; }

edgert_status ert_device_allocate(ert_device *device, size_t bytes, const char *what, CUdeviceptr *out) {
  const ert_driver *driver = &device->driver;
  ert_block *block;
  ERT_TRY(add_block(device, &block));
  bytes = at_least_one(bytes);
  ERT_DRIVER_TRY(driver, doing(what, bytes).s, cuMemAlloc_v2, &block->address, bytes);
  ERT_DRIVER_TRY(driver, doing(what, bytes).s, cuMemsetD8Async, block->address, 0, bytes, device->stream);
  *out = block->address;
  return EDGERT_OK;
}

edgert_status ert_device_allocate_staging(ert_device *device, size_t bytes, const char *what, void **host,
                                          CUdeviceptr *out) {
  const ert_driver *driver = &device->driver;
  if (ert_device_copies(device)) {
    ERT_TRY(ert_device_pin(device, bytes, what, host));
    return ert_device_allocate(device, bytes, what, out);
  }
  ert_block *block;
  ERT_TRY(add_block(device, &block));
  bytes = at_least_one(bytes);
  ERT_DRIVER_TRY(driver, doing(what, bytes).s, cuMemHostAlloc, &block->host, bytes, MAPPED);
  *host = block->host;
  ERT_DRIVER_TRY(driver, doing(what, bytes).s, cuMemHostGetDevicePointer_v2, &block->address, block->host, 0);
  *out = block->address;
  return EDGERT_OK;
}

edgert_status ert_device_pin(ert_device *device, size_t bytes, const char *what, void **out) {
  ert_block *block;
  ERT_TRY(add_block(device, &block));
  bytes = at_least_one(bytes);
  ERT_DRIVER_TRY(&device->driver, doing(what, bytes).s, cuMemHostAlloc, &block->host, bytes, PINNED);
  *out = block->host;
  return EDGERT_OK;
}

edgert_status ert_device_upload(ert_device *device, const ert_tensor *constant, CUdeviceptr *out) {
  for (const ert_block *b = device->blocks; b; b = b->next) {
    if (b->source != constant->data || b->source_bytes != constant->bytes) continue;
    *out = b->address;
    return EDGERT_OK;
  }
  ert_text what = ert_format("constant '%.80s'", constant->name);
  ERT_TRY(ert_device_allocate(device, constant->bytes, what.s, out));
  ERT_DRIVER_TRY(&device->driver, doing(what.s, constant->bytes).s, cuMemcpyHtoDAsync_v2, *out, constant->data,
                 constant->bytes, device->stream);
  device->blocks->source = constant->data;
  device->blocks->source_bytes = constant->bytes;
  return EDGERT_OK;
}

void ert_device_free_all(ert_device *device) {
  for (ert_block *b = device->blocks, *next; b; b = next) {
    next = b->next;
    if (b->host)
      (void)device->driver.cuMemFreeHost(b->host);
    else if (b->address)
      (void)device->driver.cuMemFree_v2(b->address);
    ert_free(b);
  }
  device->blocks = NULL;
}
