/* Memory for instructions that are made once. */
#include "base/made.h"

#include <sys/mman.h>

#include "base/fault.h"

bool ert_made_open(size_t bytes, ert_pages *out) {
  *out = (ert_pages){NULL, 0, NULL, 0};
  if (ert_fault(ERT_OPERATION_ALLOCATE)) return false;
  uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  *out = (ert_pages){memory, bytes, memory, bytes};
  return true;
}

bool ert_made_seal(ert_pages made) {
  if (!made.mapping) return true;
  __builtin___clear_cache((char *)made.data, (char *)made.data + made.bytes);
  return mprotect(made.data, made.bytes, PROT_READ | PROT_EXEC) == 0;
}
