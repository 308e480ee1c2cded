/* Blocks are taken in order by as many threads of the host as the settings allow. */
#include "execute/launch.h"

#include <stdlib.h>
#include <string.h>

#include "execute/block.h"

enum { MAX_HOST_THREADS = 64 };

static uint64_t launches;

typedef struct worker {
  pthread_t thread;
  emu_launch *launch;
  bool started;
} worker;

static void *work(void *argument) {
  emu_launch *l = ((worker *)argument)->launch;
  uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
  emu_counts *counts = calloc(1, sizeof *counts);
  emu_block *b = aligned_alloc(64, (sizeof *b + 63) & ~(size_t)63);
  if (b) memset(b, 0, sizeof *b);
  if (counts && b && emu_block_create(b, l, counts)) {
    for (uint64_t n; (n = atomic_fetch_add(&l->next, 1)) < blocks && !atomic_load(&l->result);) emu_block_run(b, n);
    emu_counts_add(counts);
  } else {
    int none = CUDA_SUCCESS;
    if (atomic_compare_exchange_strong(&l->result, &none, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES))
      emu_fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for kernel %s", l->f->name);
  }
  if (b) emu_block_destroy(b);
  free(b);
  free(counts);
  return NULL;
}

CUresult emu_launch_run(const ptx_function *f, const uint32_t grid[3], const uint32_t threads[3],
                        uint32_t dynamic_shared, const void *parameters) {
  emu_launch l = {.f = f,
                  .settings = emu_settings_get(),
                  .grid = {grid[0], grid[1], grid[2]},
                  .threads = {threads[0], threads[1], threads[2]},
                  .dynamic_shared = dynamic_shared,
                  .parameters = parameters,
                  .number = launches++};
  uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  uint64_t count = l.settings->threads < blocks ? l.settings->threads : blocks;
  if (count > MAX_HOST_THREADS) count = MAX_HOST_THREADS;
  pthread_mutex_init(&l.atomics, NULL);
  worker workers[MAX_HOST_THREADS];
  for (uint64_t n = 1; n < count; n++) {
    workers[n].launch = &l;
    workers[n].started = pthread_create(&workers[n].thread, NULL, work, &workers[n]) == 0;
  }
  workers[0].launch = &l;
  work(&workers[0]);
  for (uint64_t n = 1; n < count; n++)
    if (workers[n].started) pthread_join(workers[n].thread, NULL);
  pthread_mutex_destroy(&l.atomics);
  emu_counts totals = {.launches = 1};
  emu_counts_add(&totals);
  return (CUresult)atomic_load(&l.result);
}
