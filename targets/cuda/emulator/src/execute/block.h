/* A block in execution: its warps, their registers, shared and local memory, barriers. */
#ifndef EMU_EXECUTE_BLOCK_H
#define EMU_EXECUTE_BLOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/device.h"
#include "base/memory.h"
#include "base/result.h"
#include "execute/counters.h"
#include "execute/lanes.h"

enum { EMU_BARRIERS = 16 };

/* What all blocks of a launch share. */
typedef struct emu_launch {
  const ptx_function *f;
  const emu_settings *settings;
  uint32_t grid[3], threads[3];
  uint32_t dynamic_shared;
  const uint8_t *parameters;
  uint64_t number;         /* launches before this one */
  pthread_mutex_t atomics; /* held for an atomic operation of a warp */
  _Atomic uint64_t next;   /* block to begin */
  _Atomic int result;      /* CUresult: of the first failure */
} emu_launch;

typedef enum emu_state { WARP_READY, WARP_AT_BARRIER, WARP_DONE } emu_state;

/* Lanes at one instruction. Those that wait are kept in the order of their instructions, the first one runs. */
typedef struct emu_party {
  uint32_t pc, lanes;
} emu_party;

typedef struct emu_warp {
  uint8_t *registers;
  uint32_t index;      /* in the block */
  uint32_t pc, active; /* of the lanes that run */
  uint32_t limit;      /* the first waiting instruction; UINT32_MAX if none waits */
  uint32_t waiting_count;
  emu_party waiting[EMU_WARP];
  uint32_t alive; /* lanes that have not returned */
  emu_state state;
  uint32_t barrier;
  const ptx_instruction *reduction; /* bar.red that it waits at */
  uint64_t executed;
  uint32_t rows[SR_ROWS][EMU_WARP]; /* special registers that differ between lanes */
} emu_warp;

typedef struct emu_barrier {
  uint32_t expected, arrived; /* threads, in whole warps */
  uint32_t votes, all, any;
} emu_barrier;

/* Who touched a byte of shared memory last, since the barrier that `epoch` counts: epoch * 64 + warp, 63: several. */
typedef struct emu_touch {
  uint32_t writer, reader;
} emu_touch;

typedef struct emu_block {
  emu_launch *launch;
  emu_counts *counts;
  uint32_t index[3];
  uint32_t warp_count, thread_count;
  emu_warp *warps;
  uint8_t *shared, *shared_shadow;
  emu_touch *touches;
  uint32_t epoch;
  uint32_t shared_bytes;
  uint8_t *local, *local_shadow; /* of thread t: from t * local_bytes */
  emu_barrier barriers[EMU_BARRIERS];
  uint64_t random;
  const emu_region *region;                   /* in which the last access was */
  _Alignas(64) uint64_t scratch[6][EMU_WARP]; /* rows: sources that are no registers, destinations before masking */
} emu_block;

/* Room for blocks of the launch, for one thread of the host; false without memory. */
bool emu_block_create(emu_block *b, emu_launch *launch, emu_counts *counts);
void emu_block_destroy(emu_block *b);

/* Runs the block of this number to its end, or until a failure. */
void emu_block_run(emu_block *b, uint64_t number);

/* Runs the warp until it waits, ends, or has used its turn; false after a failure. */
bool emu_warp_run(emu_block *b, emu_warp *w, uint32_t turn);

/* The row of an operand; `scratch` holds it if it is no register. */
const void *emu_row(emu_block *b, const emu_warp *w, ptx_operand x, void *scratch);

/* The lanes in which a predicate holds. */
uint32_t emu_predicate(const emu_block *b, const emu_warp *w, ptx_operand x);

/* Writes a row, or the word of a predicate, for the lanes of the mask. */
void emu_store_row(emu_warp *w, ptx_operand x, const void *row, uint32_t mask);

/* ld, st, atom, red; the functions below return false after a failure. */
bool emu_memory_access(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask);
/* shfl, vote, match, redux, activemask, mov {a, b}, s. */
bool emu_exchange(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask);

/* The value of an atomic operation. */
uint64_t emu_atomic(const ptx_instruction *p, uint64_t old, uint64_t value, uint64_t other);

/* Ends the launch: logs the message with kernel, line, block and thread; returns false. */
bool emu_fault(emu_block *b, const emu_warp *w, const ptx_instruction *p, uint32_t lane, CUresult result,
               const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
