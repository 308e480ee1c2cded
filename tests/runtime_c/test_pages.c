/* Blocks of memory: zeroed, of whole pages, huge ones where there is enough for one, between pages that are there, and refused
 * without a crash. */
#include "base/pages.h"

#include <sys/mman.h>

#include "base/fault.h"
#include "test.h"

enum { HUGE = 2 << 20, PAGE = 4096 };

static bool there(uint8_t *at) {
  unsigned char resident = 0;
  return mincore(at - (uintptr_t)at % PAGE, 1, &resident) == 0 && (resident & 1) != 0 && *at == 0;
}

static void every_size(void) {
  static const size_t sizes[] = {0,        1,        4095,         4097,     ERT_PAGES_SMALL,  ERT_PAGES_SMALL + 1,
                                 HUGE - 1, HUGE + 1, HUGE * 9 / 8, 3 * HUGE, 3 * HUGE + 64000, 4 * HUGE - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    ert_pages pages;
    CHECK(ert_pages_open(sizes[i], "test", &pages) == EDGERT_OK);
    const size_t page = sizes[i] > ERT_PAGES_SMALL ? HUGE : PAGE;
    CHECK(pages.data != NULL && (uintptr_t)pages.data % page == 0);
    CHECK(pages.bytes >= sizes[i] && pages.bytes < sizes[i] + page && pages.bytes % page == 0);
    CHECK(there(pages.data - 1) && there(pages.data - ERT_PAGES_BESIDE));
    CHECK(there(pages.data + pages.bytes) && there(pages.data + pages.bytes + ERT_PAGES_BESIDE - 1));
    for (size_t at = 0; at < pages.bytes; at++) {
      CHECK(pages.data[at] == 0);
      pages.data[at] = 1;
    }
    ert_pages_close(pages);
  }
}

static void appear(void) {
  ert_pages pages;
  CHECK(ert_pages_open(16 * PAGE, "test", &pages) == EDGERT_OK);
  ert_pages_touch(pages.data + 3 * PAGE, pages.data + 4 * PAGE + 1);
  ert_pages_appear(pages.data + 9 * PAGE, pages.data + 10 * PAGE + 1);
  CHECK(there(pages.data + 3 * PAGE) && there(pages.data + 4 * PAGE));
  CHECK(there(pages.data + 9 * PAGE) && there(pages.data + 10 * PAGE));
  ert_pages_close(pages);
}

static bool refuse(ert_operation operation) { return operation == ERT_OPERATION_ALLOCATE; }

static void refused(void) {
  ert_pages pages;
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - HUGE, SIZE_MAX / 2};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    CHECK(ert_pages_open(sizes[i], "test", &pages) == EDGERT_ERROR_OUT_OF_MEMORY && pages.data == NULL);
  ert_fault_hook = refuse;
  CHECK(ert_pages_open(1, "test", &pages) == EDGERT_ERROR_OUT_OF_MEMORY && pages.data == NULL);
  ert_fault_hook = NULL;
  ert_pages_close(pages);
}

int main(void) {
  RUN(every_size);
  RUN(appear);
  RUN(refused);
  return 0;
}
