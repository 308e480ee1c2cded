/* Device memory: allocations with a byte of shadow for every byte, found by address.
 *
 * Device addresses are those of the host with a high bit set: the host cannot use them by mistake, and the way from one to
 * the other is a subtraction. What lies at an address that is no allocation's is never touched. */
#ifndef EMU_BASE_MEMORY_H
#define EMU_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/result.h"

#define EMU_DEVICE_BIT ((uint64_t)1 << 58)

typedef enum emu_origin { EMU_DEVICE_MEMORY, EMU_HOST_MEMORY, EMU_VARIABLE } emu_origin;

typedef struct emu_region {
  uint64_t address; /* of the device */
  size_t bytes;
  uint8_t *host;
  uint8_t *shadow; /* 1 for each byte that was written; NULL for host memory, which the host writes unseen */
  emu_origin origin;
  bool read_only; /* for kernels */
} emu_region;

/* Regions in the order of addresses; nothing changes them while kernels run. */
const emu_region *emu_regions(size_t *count);

/* The region that [address, address + bytes) lies in; NULL if there is none. */
const emu_region *emu_region_find(uint64_t address, size_t bytes);

/* Memory of `bytes`, aligned to 512; the content is arbitrary, not zero. */
CUresult emu_memory_allocate(size_t bytes, emu_origin origin, uint64_t *address);

/* Gives back what emu_memory_allocate gave. */
CUresult emu_memory_free(uint64_t address);

/* Copies between host and device; bounds are checked, and the shadow kept. */
CUresult emu_memory_write(uint64_t to, const void *from, size_t bytes);
CUresult emu_memory_read(void *to, uint64_t from, size_t bytes);
CUresult emu_memory_copy(uint64_t to, uint64_t from, size_t bytes);
/* Fills `count` elements of `width` bytes. */
CUresult emu_memory_fill(uint64_t to, uint32_t value, unsigned width, size_t count);

/* Bytes that are allocated. */
size_t emu_memory_used(void);

static inline uint64_t emu_address_of(const void *host) { return (uint64_t)(uintptr_t)host | EMU_DEVICE_BIT; }

#endif
