/* Memory for instructions that are made while running. */
#include "platform/code.h"

#include <sys/mman.h>

#include "base/checked.h"
#include "base/fault.h"

/* Shared pages, which mremap maps a second time where it is asked to move none of them away. */
static uint8_t *map_twice(size_t bytes) {
  uint8_t *memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  if (mremap(memory, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory + bytes) != MAP_FAILED &&
      mprotect(memory + bytes, bytes, PROT_READ | PROT_EXEC) == 0)
    return memory;
  munmap(memory, 2 * bytes);
  return NULL;
}

bool ert_code_open(const uint8_t *beside, size_t piece, uint32_t pieces, ert_pages *out, ptrdiff_t *at,
                   ptrdiff_t *shift) {
  *out = (ert_pages){NULL, 0, NULL, 0};
  *at = *shift = 0;
  size_t bytes, mapped;
  if (ert_fault(ERT_OPERATION_ALLOCATE) || !ert_multiply(piece, pieces, &bytes) || !ert_multiply(2, bytes, &mapped))
    return false;
  uint8_t *memory = map_twice(bytes);
  if (!memory) return false;
  *out = (ert_pages){memory, mapped, memory, mapped};
  *at = memory - beside;
  *shift = (ptrdiff_t)bytes;
  return true;
}
