/* Allocation, copies and fills. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

EMU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  EMU_CALL("cuMemAlloc_v2", true);
  uint64_t found;
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  EMU_TRY(emu_forbid_capture());
  EMU_TRY(emu_memory_allocate(bytes, EMU_DEVICE_MEMORY, &found));
  *address = found;
  return CUDA_SUCCESS;
}

static CUresult release(uint64_t address, emu_origin origin) {
  EMU_TRY(emu_forbid_capture());
  EMU_TRY(emu_drain(emu_current()));
  const emu_region *r = emu_region_find(address, 1);
  if (!r || r->address != address || r->origin != origin)
    return emu_fail(CUDA_ERROR_INVALID_VALUE, "0x%llx is not what was allocated", (unsigned long long)address);
  return emu_memory_free(address);
}

EMU_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  EMU_CALL("cuMemFree_v2", true);
  return address ? release(address, EMU_DEVICE_MEMORY) : CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
  EMU_CALL("cuMemHostAlloc", true);
  uint64_t address;
  if (!host || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  EMU_TRY(emu_forbid_capture());
  EMU_TRY(emu_memory_allocate(bytes, EMU_HOST_MEMORY, &address));
  *host = emu_region_find(address, 1)->host;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemAllocHost_v2(void **host, size_t bytes) { return cuMemHostAlloc(host, bytes, 0); }

EMU_EXPORT CUresult cuMemFreeHost(void *host) {
  EMU_CALL("cuMemFreeHost", true);
  return release(emu_address_of(host), EMU_HOST_MEMORY);
}

EMU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
  EMU_CALL("cuMemHostGetDevicePointer_v2", true);
  const emu_region *r = emu_region_find(emu_address_of(host), 1);
  if (!address || flags || !r || r->origin != EMU_HOST_MEMORY) return CUDA_ERROR_INVALID_VALUE;
  *address = emu_address_of(host);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  EMU_CALL("cuMemGetInfo_v2", true);
  if (!free_bytes || !total) return CUDA_ERROR_INVALID_VALUE;
  *total = emu_settings_get()->device.memory;
  *free_bytes = *total - emu_memory_used();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  EMU_CALL("cuMemGetAddressRange_v2", true);
  const emu_region *r = emu_region_find(address, 1);
  if (!r) return CUDA_ERROR_INVALID_VALUE;
  if (base) *base = r->address;
  if (bytes) *bytes = r->bytes;
  return CUDA_SUCCESS;
}

/* Host memory that the device knows is read and written when its turn comes; other memory is copied at once. */
static bool pinned(const void *host, size_t bytes) {
  const emu_region *r = emu_region_find(emu_address_of(host), bytes);
  return r && r->origin == EMU_HOST_MEMORY;
}

static CUresult check_range(uint64_t address, size_t bytes) {
  if (bytes == 0 || emu_region_find(address, bytes)) return CUDA_SUCCESS;
  return emu_fail(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%llx lie in no allocation", bytes,
                  (unsigned long long)address);
}

EMU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  EMU_CALL("cuMemcpyHtoDAsync_v2", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  EMU_TRY(check_range(to, bytes));
  emu_work w = {
      .kind = WORK_COPY_TO_DEVICE, .stream = stream, .to = to, .bytes = bytes, .host = (void *)(uintptr_t)from};
  if (!pinned(from, bytes)) {
    if (!(w.data = malloc(bytes ? bytes : 1))) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(w.data, from, bytes);
  }
  CUresult result = emu_submit(&w);
  if (result != CUDA_SUCCESS) free(w.data);
  return result;
}

EMU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  EMU_CALL("cuMemcpyDtoHAsync_v2", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  EMU_TRY(check_range(from, bytes));
  emu_work w = {.kind = WORK_COPY_TO_HOST, .stream = stream, .from = from, .bytes = bytes, .host = to};
  EMU_TRY(emu_submit(&w));
  bool captured = stream && stream->capture;
  return captured || pinned(to, bytes) ? CUDA_SUCCESS : emu_drain(emu_current());
}

EMU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  EMU_CALL("cuMemcpyDtoDAsync_v2", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  EMU_TRY(check_range(to, bytes));
  EMU_TRY(check_range(from, bytes));
  return emu_submit(&(emu_work){.kind = WORK_COPY, .stream = stream, .to = to, .from = from, .bytes = bytes});
}

/* The calls that wait. */
static CUresult wait_all(void) {
  EMU_TRY(emu_forbid_capture());
  return emu_drain(emu_current());
}

EMU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  EMU_CALL("cuMemcpyHtoD_v2", true);
  EMU_TRY(wait_all());
  return emu_memory_write(to, from, bytes);
}

EMU_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  EMU_CALL("cuMemcpyDtoH_v2", true);
  EMU_TRY(wait_all());
  return emu_memory_read(to, from, bytes);
}

EMU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  EMU_CALL("cuMemcpyDtoD_v2", true);
  EMU_TRY(wait_all());
  return emu_memory_copy(to, from, bytes);
}

static CUresult fill(CUdeviceptr to, uint32_t value, unsigned width, size_t count, CUstream stream) {
  size_t bytes;
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (__builtin_mul_overflow(count, (size_t)width, &bytes) || to % width) return CUDA_ERROR_INVALID_VALUE;
  EMU_TRY(check_range(to, bytes));
  return emu_submit(
      &(emu_work){.kind = WORK_FILL, .stream = stream, .to = to, .value = value, .width = width, .bytes = count});
}

EMU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  EMU_CALL("cuMemsetD8_v2", true);
  return fill(to, value, 1, count, NULL);
}

EMU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  EMU_CALL("cuMemsetD16_v2", true);
  return fill(to, value, 2, count, NULL);
}

EMU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  EMU_CALL("cuMemsetD32_v2", true);
  return fill(to, value, 4, count, NULL);
}

EMU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  EMU_CALL("cuMemsetD8Async", true);
  return fill(to, value, 1, count, stream);
}

EMU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  EMU_CALL("cuMemsetD32Async", true);
  return fill(to, value, 4, count, stream);
}
