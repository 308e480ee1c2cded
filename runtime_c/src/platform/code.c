/* Memory for instructions that are made while running. */
#include "platform/code.h"

#include <sys/mman.h>
#include <unistd.h>

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

bool ert_code_open(uint8_t *memory, size_t piece, size_t at, size_t bytes, uint32_t pieces, ert_pages *out,
                   ptrdiff_t *shift) {
  *out = (ert_pages){NULL, NULL, 0};
  *shift = 0;
  if (ert_fault(ERT_OPERATION_ALLOCATE)) return false;
  const int file = memfd_create("edgert", MFD_CLOEXEC);
  if (file < 0) return false;
  const size_t mapped = piece * pieces; /* as much as the memory itself, which exists */
  void *run = MAP_FAILED;
  if (ftruncate(file, (off_t)(bytes * pieces)) == 0)
    run = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (run != MAP_FAILED) {
    *out = (ert_pages){run, run, mapped};
    if (map_pieces(file, memory + at, run, piece, bytes, pieces)) *shift = (uint8_t *)run - (memory + at);
  }
  close(file);
  return *shift != 0;
}
