/* Large blocks of working memory: zeroed pages, huge ones where the system has them. */
#include "platform/pages.h"

#include <sys/mman.h>

#include "base/checked.h"
#include "base/fault.h"

enum {
  HUGE = 2 << 20,   /* of most systems; where they are larger, or there are none, it is only an alignment */
  PAGE = 4096,      /* or more */
  REACH = 4 * PAGE, /* of what is read beside a block */
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; earlier ones refuse it, and pages appear one by one */
#endif

/* Pages that are not there yet, and will not be written, are by reading: one of zeros, which all of them share. */
static void touch(const volatile uint8_t *begin, const volatile uint8_t *end) {
  for (; begin < end; begin += PAGE) (void)*begin;
}

edgert_status ert_pages_open(size_t bytes, const char *what, ert_pages *out) {
  *out = (ert_pages){NULL, NULL, 0};
  size_t whole = bytes / HUGE * HUGE, mapped;
  if (bytes - whole >= HUGE / 8) whole += HUGE; /* costs less time than many small ones, and not much memory */
  void *mapping = MAP_FAILED;
  /* What the alignment leaves over stays address space. */
  if (ert_add(bytes, 2 * REACH + (whole > 0 ? 2 * HUGE : 0), &mapped) && !ert_fault(ERT_OPERATION_ALLOCATE))
    mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return ert_fail(EDGERT_ERROR_OUT_OF_MEMORY, ert_format("%s: %zu bytes", what, bytes).s, NULL, NULL);
  uint8_t *data = (uint8_t *)mapping + REACH;
  if (whole > 0) data += -(uintptr_t)data % HUGE;
  if (whole > 0) (void)madvise(data, whole, MADV_HUGEPAGE);
  if (whole < bytes) (void)madvise(data + whole, bytes - whole, MADV_POPULATE_WRITE);
  touch(data - REACH, data);
  touch(data + (whole < bytes ? bytes : whole), data + bytes + REACH);
  *out = (ert_pages){data, mapping, mapped};
  return EDGERT_OK;
}

void ert_pages_close(ert_pages pages) {
  if (pages.mapping) munmap(pages.mapping, pages.mapped);
}
