/* Memory for instructions that are made once. */
#include "base/made.h"

#include <sys/mman.h>

#include "base/checked.h"
#include "base/fault.h"

uint8_t *ert_made_take(ert_made *made, size_t bytes) {
  if (bytes > ERT_MADE_MOST - made->used || ert_fault(ERT_OPERATION_ALLOCATE)) return NULL;
  if (!made->pages.mapping) {
    uint8_t *memory = mmap(NULL, ERT_MADE_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    made->pages = (ert_pages){memory, ERT_MADE_MOST, memory, ERT_MADE_MOST};
  }
  uint8_t *taken = made->pages.data + made->used;
  made->used += bytes;
  return taken;
}

void ert_made_trim(ert_made *made, const uint8_t *end) {
  (void)ert_align_up((size_t)(end - made->pages.data), 64, &made->used);
}

bool ert_made_seal(const ert_made *made) {
  if (made->used == 0) return true;
  __builtin___clear_cache((char *)made->pages.data, (char *)made->pages.data + made->used);
  return mprotect(made->pages.data, made->pages.bytes, PROT_READ | PROT_EXEC) == 0;
}
