/* Memory for instructions that are made while running. */
#include "platform/code.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fault.h"

/* Maps piece after piece of a file in memory twice. */
static bool map_pieces(int file, uint8_t *memory, uint8_t *run, size_t piece, size_t bytes, uint32_t pieces) {
  for (uint32_t i = 0; i < pieces; i++) {
    const off_t at = (off_t)(i * bytes);
    if (mmap(run + i * piece, bytes, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, file, at) == MAP_FAILED ||
        mmap(memory + i * piece, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, at) == MAP_FAILED)
      return false;
  }
  return true;
}

bool ert_code_open(const uint8_t *beside, size_t piece, size_t bytes, uint32_t pieces, ert_pages *out, ptrdiff_t *at,
                   ptrdiff_t *shift) {
  *out = (ert_pages){NULL, 0, NULL, 0};
  *at = *shift = 0;
  size_t mapped;
  if (ert_fault(ERT_OPERATION_ALLOCATE) || !ert_multiply(2 * piece, pieces, &mapped)) return false;
  const int file = memfd_create("edgert", MFD_CLOEXEC);
  if (file < 0) return false;
  uint8_t *memory = MAP_FAILED; /* of addresses; there is nothing between pieces */
  if (ftruncate(file, (off_t)(bytes * pieces)) == 0)
    memory = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) {
    *out = (ert_pages){memory, mapped, memory, mapped};
    if (map_pieces(file, memory, memory + mapped / 2, piece, bytes, pieces))
      *at = memory - beside, *shift = (ptrdiff_t)(mapped / 2);
  }
  close(file);
  return *shift != 0;
}
