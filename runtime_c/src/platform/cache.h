/* A folder of files that may be lost at any time: what took long to make, by key. */
#ifndef ERT_PLATFORM_CACHE_H
#define ERT_PLATFORM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/file.h"
#include "platform/sha256.h"

enum { ERT_CACHE_PATH = 1024 };

typedef struct ert_cache {
  char folder[ERT_CACHE_PATH]; /* "": nothing is found and nothing kept */
  bool grown;                  /* since it was trimmed */
} ert_cache;

/* What is found under a key. */
typedef struct ert_cached {
  const uint8_t *data; /* 16-byte aligned; NULL: nothing */
  size_t bytes;
  ert_mapping file;
} ert_cached;

/* The folder `chosen`, or if that is NULL the one that EDGERT_CACHE_DIR names, or else edgert/driver in the user's folder
 * for caches (XDG_CACHE_HOME, ~/.cache). "": none. It is made when something is kept. */
void ert_cache_open(const char *chosen, ert_cache *out);

/* Finds what was kept whole; anything damaged counts as nothing. Undo with ert_cache_release, which takes nothing, too. */
ert_cached ert_cache_find(const ert_cache *cache, const uint8_t key[ERT_SHA256_BYTES]);
void ert_cache_release(ert_cached found);

/* Keeps a copy, in place of what was there: readers see the old file or the new one. Where that fails, nothing is kept. */
void ert_cache_keep(ert_cache *cache, const uint8_t key[ERT_SHA256_BYTES], const void *data, size_t bytes);

/* Removes files used longest ago until no more than EDGERT_CACHE_BYTES (256 MiB) are left, if anything was kept. */
void ert_cache_trim(ert_cache *cache);

#endif
