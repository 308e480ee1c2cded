/* What kernels did. */
#ifndef EMU_EXECUTE_COUNTERS_H
#define EMU_EXECUTE_COUNTERS_H

#include "ptx/program.h"

typedef struct emu_counts {
  struct {
    uint64_t warps, lanes; /* how many times warps, and lanes, executed it */
  } code[CODE_COUNT];
  uint64_t global_requests, global_sectors; /* instructions of warps; sectors of 32 bytes that they touch */
  uint64_t shared_requests, shared_cycles;  /* cycles: the most different words in one of the 32 banks */
  uint64_t launches, blocks, divergent;     /* branches that part a warp */
} emu_counts;

/* Adds to the totals of the process. */
void emu_counts_add(const emu_counts *counts);

#endif
