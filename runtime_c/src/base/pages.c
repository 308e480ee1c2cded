/* Mapping pages, and making them appear. */
#include "base/pages.h"

#include <sys/mman.h>

#include "base/checked.h"
#include "base/fault.h"

enum { PAGE = 4096 }; /* or more */

__attribute__((no_sanitize("address"))) /* they need not be taken (base/room.c) */
void ert_pages_touch(const uint8_t *begin, const uint8_t *end) {
  for (const volatile uint8_t *at = begin; at < end; at += PAGE) (void)*at;
}

void ert_pages_appear(uint8_t *begin, uint8_t *end) {
  for (volatile uint8_t *at = begin; at < end; at += PAGE) *at = 0;
}

edgert_status ert_pages_open(size_t bytes, const char *what, ert_pages *out) {
  *out = (ert_pages){NULL, 0, NULL, 0};
  const size_t page = bytes > ERT_PAGES_SMALL ? ERT_PAGES_HUGE : PAGE;
  size_t whole, mapped;
  void *mapping = MAP_FAILED;
  /* What the alignment leaves over stays address space. */
  if (ert_align_up(bytes, page, &whole) && ert_add(whole, 2 * ERT_PAGES_BESIDE + page, &mapped) &&
      !ert_fault(ERT_OPERATION_ALLOCATE))
    mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return ert_fail(EDGERT_ERROR_OUT_OF_MEMORY, ert_format("%s: %zu bytes", what, bytes).s, NULL, NULL);
  uint8_t *data = (uint8_t *)mapping + ERT_PAGES_BESIDE;
  data += -(uintptr_t)data % page;
  if (page == ERT_PAGES_HUGE) (void)madvise(data, whole, MADV_HUGEPAGE);
  ert_pages_touch(data - ERT_PAGES_BESIDE, data);
  ert_pages_touch(data + whole, data + whole + ERT_PAGES_BESIDE);
  *out = (ert_pages){data, whole, mapping, mapped};
  return EDGERT_OK;
}

void ert_pages_close(ert_pages pages) {
  if (pages.mapping) munmap(pages.mapping, pages.mapped);
}
