/* A folder of files that may be lost at any time. A file is a header and what was kept, so that damage is found. */
#include "platform/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".edgecode"

enum { SUFFIX_BYTES = sizeof SUFFIX - 1, DEFAULT_BYTES = 256 << 20 };

typedef struct header {
  char magic[8];
  uint64_t bytes;
  uint8_t key[ERT_SHA256_BYTES], digest[ERT_SHA256_BYTES]; /* of what follows */
  uint8_t zero[48];
} header;

static const char magic[8] = {'E', 'D', 'G', 'E', 'C', 'O', 'D', 'E'};

typedef struct path {
  char s[ERT_CACHE_PATH + 2 * ERT_SHA256_BYTES + 64];
} path;

void ert_cache_open(const char *chosen, ert_cache *out) {
  const char *named = getenv("EDGERT_CACHE_DIR"), *user = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = 0;
  *out = (ert_cache){.grown = false};
  if (chosen || (named && *named))
    length = snprintf(out->folder, sizeof out->folder, "%s", chosen ? chosen : named);
  else if (user && *user)
    length = snprintf(out->folder, sizeof out->folder, "%s/edgert/driver", user);
  else if (home && *home)
    length = snprintf(out->folder, sizeof out->folder, "%s/.cache/edgert/driver", home);
  if (length < 0 || (size_t)length >= sizeof out->folder) out->folder[0] = '\0';
}

static path path_of(const ert_cache *cache, const uint8_t key[ERT_SHA256_BYTES]) {
  path p;
  size_t end = (size_t)snprintf(p.s, sizeof p.s, "%s/", cache->folder);
  for (int i = 0; i < ERT_SHA256_BYTES; i++) end += (size_t)snprintf(p.s + end, sizeof p.s - end, "%02x", key[i]);
  snprintf(p.s + end, sizeof p.s - end, SUFFIX);
  return p;
}

static void digest_of(const void *data, size_t bytes, uint8_t digest[ERT_SHA256_BYTES]) {
  ert_sha256 hash;
  ert_sha256_start(&hash);
  ert_sha256_add(&hash, data, bytes);
  ert_sha256_finish(&hash, digest);
}

static bool intact(ert_mapping file, const uint8_t key[ERT_SHA256_BYTES]) {
  header h;
  uint8_t digest[ERT_SHA256_BYTES];
  if (file.bytes < sizeof h) return false;
  memcpy(&h, file.data, sizeof h);
  if (memcmp(h.magic, magic, sizeof magic) != 0 || memcmp(h.key, key, sizeof h.key) != 0) return false;
  if (h.bytes != file.bytes - sizeof h) return false;
  digest_of(file.data + sizeof h, file.bytes - sizeof h, digest);
  return memcmp(h.digest, digest, sizeof digest) == 0;
}

ert_cached ert_cache_find(const ert_cache *cache, const uint8_t key[ERT_SHA256_BYTES]) {
  ert_cached found = {.data = NULL};
  if (!*cache->folder) return found;
  path p = path_of(cache, key);
  if (ert_map(p.s, &found.file) != EDGERT_OK) return found;
  if (!intact(found.file, key)) {
    ert_unmap(found.file);
    return (ert_cached){.data = NULL};
  }
  (void)utimensat(AT_FDCWD, p.s, NULL, 0); /* it was used now */
  found.data = found.file.data + sizeof(header);
  found.bytes = found.file.bytes - sizeof(header);
  return found;
}

void ert_cache_release(ert_cached found) { ert_unmap(found.file); }

/* The folder with those above it; whether it is there, opening files in it will tell. */
static void make_folder(const ert_cache *cache) {
  char parent[ERT_CACHE_PATH];
  memcpy(parent, cache->folder, sizeof parent);
  for (char *slash = parent + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = '\0';
    (void)mkdir(parent, 0700);
  }
  (void)mkdir(parent, 0700);
}

static bool write_all(int file, const void *data, size_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = write(file, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

void ert_cache_keep(ert_cache *cache, const uint8_t key[ERT_SHA256_BYTES], const void *data, size_t bytes) {
  static atomic_uint number;
  if (!*cache->folder) return;
  header h = {.bytes = bytes};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(h.key, key, sizeof h.key);
  digest_of(data, bytes, h.digest);
  path final = path_of(cache, key), unfinished;
  snprintf(unfinished.s, sizeof unfinished.s, "%s/%ld-%u" SUFFIX, cache->folder, (long)getpid(),
           atomic_fetch_add(&number, 1));
  make_folder(cache);
  int file = open(unfinished.s, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  bool good = write_all(file, &h, sizeof h) && write_all(file, data, bytes);
  good = close(file) == 0 && good && rename(unfinished.s, final.s) == 0;
  if (!good) (void)unlink(unfinished.s);
  cache->grown |= good;
}

static bool earlier(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* The bytes of all files of ours, and the one used longest ago; false without any. */
static bool oldest_file(DIR *folder, uint64_t *total, char name[NAME_MAX + 1]) {
  struct timespec oldest = {0, 0};
  bool found = false;
  *total = 0;
  rewinddir(folder);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    struct stat info;
    size_t length = strlen(entry->d_name);
    if (length < SUFFIX_BYTES || strcmp(entry->d_name + length - SUFFIX_BYTES, SUFFIX) != 0) continue;
    if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    *total += (uint64_t)info.st_size;
    if (found && !earlier(info.st_mtim, oldest)) continue;
    oldest = info.st_mtim;
    memcpy(name, entry->d_name, length + 1);
    found = true;
  }
  return found;
}

void ert_cache_trim(ert_cache *cache) {
  const char *limit = getenv("EDGERT_CACHE_BYTES");
  uint64_t most = limit && *limit ? strtoull(limit, NULL, 10) : DEFAULT_BYTES, total;
  char name[NAME_MAX + 1];
  DIR *folder = cache->grown ? opendir(cache->folder) : NULL;
  if (!folder) return;
  while (oldest_file(folder, &total, name) && total > most)
    if (unlinkat(dirfd(folder), name, 0) != 0) break;
  closedir(folder);
  cache->grown = false;
}
