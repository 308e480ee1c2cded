/* A whole file mapped into memory, read-only and private. */
#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/pages.h"

static edgert_status fail(const char *path, const char *what, int error) {
  return ert_fail(EDGERT_ERROR_IO, ert_format("%.180s", path).s, NULL, ert_format("%s: %s", what, strerror(error)).s);
}

static edgert_status map_descriptor(int descriptor, const char *path, ert_mapping *out) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return fail(path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode))
    return ert_fail(EDGERT_ERROR_IO, ert_format("%.180s", path).s, "a file", "something else");
  if (info.st_size == 0) return EDGERT_OK;
  size_t bytes = (size_t)info.st_size;
  void *data = MAP_FAILED;
  errno = ENOMEM;
  if (!ert_fault(ERT_OPERATION_MAP)) data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return fail(path, "cannot be mapped", errno);
  /* Where the system has large pages for files, reading them from disk takes less time, and mapping them hardly any. */
  if (bytes >= ERT_PAGES_HUGE) (void)madvise(data, bytes, MADV_HUGEPAGE);
  *out = (ert_mapping){data, bytes};
  return EDGERT_OK;
}

edgert_status ert_map(const char *path, ert_mapping *out) {
  *out = (ert_mapping){NULL, 0};
  int descriptor = -1;
  errno = EIO;
  /* Non-blocking, so that a pipe of this name cannot hang us. */
  if (!ert_fault(ERT_OPERATION_OPEN)) descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return fail(path, "cannot be opened", errno);
  edgert_status status = map_descriptor(descriptor, path, out);
  close(descriptor);
  return status;
}

void ert_unmap(ert_mapping mapping) {
  if (mapping.data) munmap((void *)(uintptr_t)mapping.data, mapping.bytes);
}
