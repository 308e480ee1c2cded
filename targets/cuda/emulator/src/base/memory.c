/* The table of allocations, and copies. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/device.h"
#include "base/export.h"
#include "edgert-cuda-emulator.h"

static emu_region *regions;
static size_t region_count, capacity, used;

const emu_region *emu_regions(size_t *count) {
  *count = region_count;
  return regions;
}

/* Index of the first region that begins above `address`. */
static size_t above(uint64_t address) {
  size_t low = 0, high = region_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (regions[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const emu_region *emu_region_find(uint64_t address, size_t bytes) {
  size_t i = above(address);
  if (i == 0) return NULL;
  const emu_region *r = &regions[i - 1];
  uint64_t offset = address - r->address;
  return offset <= r->bytes && bytes <= r->bytes - offset ? r : NULL;
}

static bool reserve(void) {
  if (region_count < capacity) return true;
  size_t more = capacity ? capacity * 2 : 64;
  emu_region *grown = realloc(regions, more * sizeof *grown);
  if (!grown) return false;
  regions = grown;
  capacity = more;
  return true;
}

CUresult emu_memory_allocate(size_t bytes, emu_origin origin, uint64_t *address) {
  size_t limit = emu_settings_get()->device.memory;
  if (bytes == 0) return emu_fail(CUDA_ERROR_INVALID_VALUE, "allocation of 0 bytes");
  if (bytes > limit || used > limit - bytes)
    return emu_fail(CUDA_ERROR_OUT_OF_MEMORY, "allocation of %zu bytes; %zu of %zu are used", bytes, used, limit);
  size_t rounded = (bytes + 511) & ~(size_t)511;
  uint8_t *host = aligned_alloc(512, rounded);
  uint8_t *shadow = origin == EMU_HOST_MEMORY ? NULL : calloc(rounded, 1);
  if (!host || (!shadow && origin != EMU_HOST_MEMORY) || !reserve()) {
    free(host);
    free(shadow);
    return emu_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for %zu bytes", bytes);
  }
  if (bytes <= (size_t)1 << 20) memset(host, 0xa5, rounded); /* what large ones hold is arbitrary enough */
  *address = emu_address_of(host);
  size_t i = above(*address);
  memmove(regions + i + 1, regions + i, (region_count - i) * sizeof *regions);
  regions[i] = (emu_region){*address, bytes, host, shadow, origin, false};
  region_count++;
  used += bytes;
  return CUDA_SUCCESS;
}

CUresult emu_memory_free(uint64_t address) {
  size_t i = above(address);
  if (i == 0 || regions[i - 1].address != address)
    return emu_fail(CUDA_ERROR_INVALID_VALUE, "free of 0x%llx, which is no allocation", (unsigned long long)address);
  emu_region *r = &regions[i - 1];
  used -= r->bytes;
  free(r->host);
  free(r->shadow);
  memmove(r, r + 1, (region_count - i) * sizeof *r);
  region_count--;
  return CUDA_SUCCESS;
}

static CUresult locate(uint64_t address, size_t bytes, const emu_region **region, size_t *offset) {
  *region = emu_region_find(address, bytes);
  if (!*region)
    return emu_fail(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%llx lie in no allocation", bytes,
                    (unsigned long long)address);
  *offset = address - (*region)->address;
  return CUDA_SUCCESS;
}

CUresult emu_memory_write(uint64_t to, const void *from, size_t bytes) {
  const emu_region *r;
  size_t offset;
  if (bytes == 0) return CUDA_SUCCESS;
  EMU_TRY(locate(to, bytes, &r, &offset));
  memcpy(r->host + offset, from, bytes);
  if (r->shadow) memset(r->shadow + offset, 1, bytes);
  return CUDA_SUCCESS;
}

CUresult emu_memory_read(void *to, uint64_t from, size_t bytes) {
  const emu_region *r;
  size_t offset;
  if (bytes == 0) return CUDA_SUCCESS;
  EMU_TRY(locate(from, bytes, &r, &offset));
  memcpy(to, r->host + offset, bytes);
  return CUDA_SUCCESS;
}

CUresult emu_memory_copy(uint64_t to, uint64_t from, size_t bytes) {
  const emu_region *r, *s;
  size_t i = 0, j = 0;
  if (bytes == 0) return CUDA_SUCCESS;
  EMU_TRY(locate(to, bytes, &r, &i));
  EMU_TRY(locate(from, bytes, &s, &j));
  memmove(r->host + i, s->host + j, bytes);
  if (r->shadow && s->shadow) memmove(r->shadow + i, s->shadow + j, bytes);
  if (r->shadow && !s->shadow) memset(r->shadow + i, 1, bytes);
  return CUDA_SUCCESS;
}

CUresult emu_memory_fill(uint64_t to, uint32_t value, unsigned width, size_t count) {
  const emu_region *r;
  size_t offset, bytes;
  if (count == 0) return CUDA_SUCCESS;
  if (to % width) return emu_fail(CUDA_ERROR_INVALID_VALUE, "fill of unaligned memory");
  if (__builtin_mul_overflow(count, (size_t)width, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  EMU_TRY(locate(to, bytes, &r, &offset));
  for (size_t i = 0; i < count; i++) memcpy(r->host + offset + i * width, &value, width);
  if (r->shadow) memset(r->shadow + offset, 1, bytes);
  return CUDA_SUCCESS;
}

size_t emu_memory_used(void) { return used; }

EMU_EXPORT uint64_t edgertEmulatorBytes(void) { return used; }
