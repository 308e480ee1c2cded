/* One block: warps take turns in random order, and wait for each other at barriers. */
#include "execute/block.h"

#include <stdlib.h>
#include <string.h>

enum { TURN = 1 << 14 }; /* instructions after which another warp may go on, so that waiting loops end */

static uint64_t random_next(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t x = *state;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void *aligned_zero(size_t bytes) {
  size_t rounded = (bytes + 63) & ~(size_t)63;
  void *p = aligned_alloc(64, rounded ? rounded : 64);
  if (p) memset(p, 0, rounded);
  return p;
}

bool emu_block_create(emu_block *b, emu_launch *l, emu_counts *counts) {
  memset(b, 0, sizeof *b);
  b->launch = l;
  b->counts = counts;
  b->thread_count = l->threads[0] * l->threads[1] * l->threads[2];
  b->warp_count = (b->thread_count + EMU_WARP - 1) / EMU_WARP;
  b->shared_bytes = ((l->f->shared_bytes + 15) & ~15u) + l->dynamic_shared;
  size_t registers = (size_t)l->f->registers * 64;
  b->warps = aligned_zero(b->warp_count * sizeof *b->warps);
  uint8_t *all = aligned_zero(b->warp_count * registers);
  if (b->warps) b->warps[0].registers = all;
  b->shared = aligned_zero(b->shared_bytes);
  b->shared_shadow = aligned_zero(b->shared_bytes);
  b->touches = aligned_zero(b->shared_bytes * sizeof *b->touches);
  b->local = aligned_zero((size_t)l->f->local_bytes * b->warp_count * EMU_WARP);
  b->local_shadow = aligned_zero((size_t)l->f->local_bytes * b->warp_count * EMU_WARP);
  if (!b->warps) free(all);
  if (!b->warps || !all || !b->shared || !b->shared_shadow || !b->touches || !b->local || !b->local_shadow)
    return false;
  for (uint32_t n = 0; n < b->warp_count; n++) {
    emu_warp *w = &b->warps[n];
    w->index = n;
    w->registers = all + n * registers;
    for (uint32_t i = 0; i < EMU_WARP; i++) {
      uint32_t t = n * EMU_WARP + i;
      w->rows[SR_TID_X][i] = t % l->threads[0];
      w->rows[SR_TID_Y][i] = t / l->threads[0] % l->threads[1];
      w->rows[SR_TID_Z][i] = t / l->threads[0] / l->threads[1];
      w->rows[SR_LANEID][i] = i;
      w->rows[SR_LANEMASK_EQ][i] = 1u << i;
      w->rows[SR_LANEMASK_LT][i] = (1u << i) - 1;
      w->rows[SR_LANEMASK_LE][i] = (1u << i) | ((1u << i) - 1);
      w->rows[SR_LANEMASK_GT][i] = ~((1u << i) | ((1u << i) - 1));
      w->rows[SR_LANEMASK_GE][i] = ~((1u << i) - 1);
    }
  }
  return true;
}

void emu_block_destroy(emu_block *b) {
  if (b->warps) free(b->warps[0].registers);
  free(b->warps);
  free(b->shared);
  free(b->shared_shadow);
  free(b->touches);
  free(b->local);
  free(b->local_shadow);
}

static void begin(emu_block *b, uint64_t number) {
  emu_launch *l = b->launch;
  b->index[0] = (uint32_t)(number % l->grid[0]);
  b->index[1] = (uint32_t)(number / l->grid[0] % l->grid[1]);
  b->index[2] = (uint32_t)(number / l->grid[0] / l->grid[1]);
  b->random = l->settings->seed * 0x2545f4914f6cdd1du + number;
  b->epoch++;
  b->region = NULL;
  memset(b->barriers, 0, sizeof b->barriers);
  memset(b->shared, 0xa5, b->shared_bytes);
  memset(b->shared_shadow, 0, b->shared_bytes);
  memset(b->local_shadow, 0, (size_t)l->f->local_bytes * b->warp_count * EMU_WARP);
  memset(b->warps[0].registers, 0xff, (size_t)l->f->registers * 64 * b->warp_count);
  for (uint32_t n = 0; n < b->warp_count; n++) {
    emu_warp *w = &b->warps[n];
    uint32_t lanes = b->thread_count - n * EMU_WARP;
    w->alive = w->active = lanes >= EMU_WARP ? UINT32_MAX : (1u << lanes) - 1;
    w->pc = 0;
    w->limit = UINT32_MAX;
    w->waiting_count = 0;
    w->state = WARP_READY;
    w->reduction = NULL;
    w->executed = 0;
  }
}

static void give_reduction(emu_warp *w, const emu_barrier *at) {
  const ptx_instruction *p = w->reduction;
  uint32_t row[EMU_WARP], holds = p->mode == MODE_AND ? at->all : at->any;
  EACH row[i] = at->votes;
  if (ptx_width(p->x[0]) == WIDTH_PREDICATE) row[0] = holds ? UINT32_MAX : 0;
  emu_store_row(w, p->x[0], row, w->active);
  w->reduction = NULL;
}

/* Lets warps go on whose barrier is complete. Threads that have returned count no more. */
static void release(emu_block *b) {
  uint32_t alive = 0;
  for (uint32_t n = 0; n < b->warp_count; n++) alive += b->warps[n].state == WARP_DONE ? 0 : EMU_WARP;
  for (uint32_t id = 0; id < EMU_BARRIERS; id++) {
    emu_barrier *at = &b->barriers[id];
    if (at->arrived == 0 || at->arrived < (at->expected ? at->expected : alive)) continue;
    for (uint32_t n = 0; n < b->warp_count; n++) {
      emu_warp *w = &b->warps[n];
      if (w->state != WARP_AT_BARRIER || w->barrier != id) continue;
      if (w->reduction) give_reduction(w, at);
      w->state = WARP_READY;
    }
    at->arrived = 0;
    b->epoch++;
  }
}

/* A random warp that can run; NULL if there is none. */
static emu_warp *choose(emu_block *b) {
  uint32_t ready = 0;
  for (uint32_t n = 0; n < b->warp_count; n++) ready += b->warps[n].state == WARP_READY;
  if (ready == 0) return NULL;
  uint32_t which = (uint32_t)(random_next(&b->random) % ready);
  for (uint32_t n = 0;; n++)
    if (b->warps[n].state == WARP_READY && which-- == 0) return &b->warps[n];
}

static bool finished(const emu_block *b) {
  for (uint32_t n = 0; n < b->warp_count; n++)
    if (b->warps[n].state != WARP_DONE) return false;
  return true;
}

static void stuck(emu_block *b) {
  for (uint32_t n = 0; n < b->warp_count; n++) {
    emu_warp *w = &b->warps[n];
    if (w->state != WARP_AT_BARRIER) continue;
    emu_fault(b, w, &b->launch->f->code[w->pc - 1], (uint32_t)__builtin_ctz(w->active), CUDA_ERROR_LAUNCH_FAILED,
              "barrier divergence: the warp waits at barrier %u, and no other one comes", w->barrier);
    return;
  }
}

void emu_block_run(emu_block *b, uint64_t number) {
  begin(b, number);
  b->counts->blocks++;
  while (!finished(b)) {
    emu_warp *w = choose(b);
    if (!w) {
      stuck(b);
      return;
    }
    if (!emu_warp_run(b, w, TURN) || atomic_load_explicit(&b->launch->result, memory_order_relaxed)) return;
    if (w->executed > b->launch->settings->limit) {
      emu_fault(b, w, &b->launch->f->code[w->pc], 0, CUDA_ERROR_LAUNCH_TIMEOUT, "more than %llu instructions",
                (unsigned long long)b->launch->settings->limit);
      return;
    }
    if (w->state != WARP_READY) release(b);
  }
}
