/* One warp: fetches, executes, and keeps lanes that diverge in order.
 *
 * Of the lanes of a warp those at the lowest instruction run; they meet the others where these wait. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "execute/block.h"

static uint64_t special(const emu_block *b, const emu_warp *w, uint32_t which) {
  const emu_launch *l = b->launch;
  struct timespec t;
  switch (which) {
    case SR_NTID_X:
    case SR_NTID_Y:
    case SR_NTID_Z:
      return l->threads[which - SR_NTID_X];
    case SR_CTAID_X:
    case SR_CTAID_Y:
    case SR_CTAID_Z:
      return b->index[which - SR_CTAID_X];
    case SR_NCTAID_X:
    case SR_NCTAID_Y:
    case SR_NCTAID_Z:
      return l->grid[which - SR_NCTAID_X];
    case SR_WARPID:
      return w->index;
    case SR_NWARPID:
      return b->warp_count;
    case SR_NSMID:
      return (uint64_t)l->settings->device.multiprocessors;
    case SR_SMID:
      return (b->index[0] + b->index[1] + b->index[2]) % (uint64_t)l->settings->device.multiprocessors;
    case SR_GRIDID:
      return l->number;
    case SR_CLOCK:
    case SR_CLOCK64:
      return w->executed;
    case SR_GLOBALTIMER:
      clock_gettime(CLOCK_MONOTONIC, &t);
      return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    case SR_DYNAMIC_SHARED:
      return l->dynamic_shared;
    default:
      return b->shared_bytes;
  }
}

static void fill(void *row, unsigned width, uint64_t value) {
  uint64_t *r64 = row;
  uint32_t *r32 = row;
  uint16_t *r16 = row;
  uint8_t *r8 = row;
  if (width == 2) EACH r32[i] = (uint32_t)value;
  if (width == 3) EACH r64[i] = value;
  if (width == 1) EACH r16[i] = (uint16_t)value;
  if (width == 0) EACH r8[i] = (uint8_t)value;
}

uint32_t emu_predicate(const emu_block *b, const emu_warp *w, ptx_operand x) {
  uint32_t m;
  if (ptx_kind(x) == OPERAND_CONSTANT)
    m = (uint32_t)b->launch->f->constants[ptx_index(x)];
  else
    memcpy(&m, w->registers + (size_t)ptx_index(x) * 64, sizeof m);
  return ptx_negated(x) ? ~m : m;
}

const void *emu_row(emu_block *b, const emu_warp *w, ptx_operand x, void *scratch) {
  unsigned width = ptx_width(x);
  switch (ptx_kind(x)) {
    case OPERAND_NONE:
      return NULL;
    case OPERAND_REGISTER:
      if (width != WIDTH_PREDICATE) return w->registers + (size_t)ptx_index(x) * 64;
      break;
    case OPERAND_CONSTANT:
      if (width == WIDTH_PREDICATE) break;
      fill(scratch, width, b->launch->f->constants[ptx_index(x)]);
      return scratch;
    default:
      if (ptx_index(x) >= SR_ROWS) {
        fill(scratch, width, special(b, w, ptx_index(x)));
      } else if (width == 3) {
        EACH((uint64_t *)scratch)[i] = w->rows[ptx_index(x)][i];
      } else if (width == 1) {
        EACH((uint16_t *)scratch)[i] = (uint16_t)w->rows[ptx_index(x)][i];
      } else {
        return w->rows[ptx_index(x)];
      }
      return scratch;
  }
  uint32_t m = emu_predicate(b, w, x);
  memcpy(scratch, &m, sizeof m);
  return scratch;
}

#define BLEND(type)                          \
  {                                          \
    type *r = to;                            \
    const type *a = from;                    \
    EACH r[i] = mask >> i & 1 ? a[i] : r[i]; \
    return;                                  \
  }

EMU_CLONES static void blend(void *to, const void *from, unsigned width, uint32_t mask) {
  if (width == 2) BLEND(uint32_t)
  if (width == 3) BLEND(uint64_t)
  if (width == 1) BLEND(uint16_t)
  if (width == 0) BLEND(uint8_t)
  uint32_t *r = to;
  *r = (*r & ~mask) | (*(const uint32_t *)from & mask);
}

void emu_store_row(emu_warp *w, ptx_operand x, const void *row, uint32_t mask) {
  if (x) blend(w->registers + (size_t)ptx_index(x) * 64, row, ptx_width(x), mask);
}

bool emu_fault(emu_block *b, const emu_warp *w, const ptx_instruction *p, uint32_t lane, CUresult result,
               const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  int none = CUDA_SUCCESS;
  if (!atomic_compare_exchange_strong(&b->launch->result, &none, (int)result)) return false;
  emu_fail(result, "kernel %s, line %u (%s.%s), block (%u,%u,%u), thread (%u,%u,%u): %s", b->launch->f->name, p->line,
           ptx_operation_name(p->code), ptx_type_name((ptx_type)(p->code % 16)), b->index[0], b->index[1], b->index[2],
           w->rows[SR_TID_X][lane], w->rows[SR_TID_Y][lane], w->rows[SR_TID_Z][lane], text);
  return false;
}

/* Lanes wait at an instruction. */
static void put(emu_warp *w, uint32_t pc, uint32_t lanes) {
  uint32_t n = 0;
  while (n < w->waiting_count && w->waiting[n].pc < pc) n++;
  if (n < w->waiting_count && w->waiting[n].pc == pc) {
    w->waiting[n].lanes |= lanes;
  } else {
    memmove(w->waiting + n + 1, w->waiting + n, (w->waiting_count - n) * sizeof *w->waiting);
    w->waiting[n] = (emu_party){pc, lanes};
    w->waiting_count++;
  }
}

/* The lanes at the lowest instruction run. */
static void pick(emu_warp *w) {
  w->pc = w->waiting[0].pc;
  w->active = w->waiting[0].lanes;
  w->waiting_count--;
  memmove(w->waiting, w->waiting + 1, w->waiting_count * sizeof *w->waiting);
  w->limit = w->waiting_count ? w->waiting[0].pc : UINT32_MAX;
}

static void reconverge(emu_warp *w) {
  if (w->active) put(w, w->pc, w->active);
  pick(w);
}

static bool leave(emu_warp *w, uint32_t mask) {
  w->alive &= ~mask;
  w->active &= ~mask;
  w->pc++;
  if (w->active) return true;
  if (w->waiting_count)
    pick(w);
  else
    w->state = WARP_DONE;
  return true;
}

static void branch(emu_block *b, emu_warp *w, uint32_t target, uint32_t mask) {
  if (mask == w->active) {
    w->pc = target;
  } else {
    b->counts->divergent++;
    put(w, target, mask);
    w->active &= ~mask;
    w->pc++;
    reconverge(w);
  }
}

static bool branch_indexed(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  const uint32_t *list = b->launch->f->targets + p->target;
  const uint32_t *index = emu_row(b, w, p->x[1], b->scratch[0]);
  uint32_t from = w->pc, rest = w->active & ~mask;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(m);
    if (index[lane] >= list[0])
      return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "branch to target %u of %u", index[lane], list[0]);
    put(w, list[1 + index[lane]], 1u << lane);
  }
  if (rest) put(w, from + 1, rest);
  w->active = 0;
  reconverge(w);
  return true;
}

static bool barrier(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  unsigned operation = p->code / 16;
  const uint32_t *id = emu_row(b, w, p->x[1], b->scratch[0]);
  uint32_t lane = (uint32_t)__builtin_ctz(mask), count = 0;
  if (mask != w->alive)
    return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED,
                     "barrier divergence: lanes %08x of the warp arrive, but %08x run", mask, w->alive);
  if (id[lane] >= EMU_BARRIERS) return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "barrier %u of 16", id[lane]);
  if (p->x[2] && operation != OP_BAR_RED) count = ((const uint32_t *)emu_row(b, w, p->x[2], b->scratch[1]))[lane];
  if (count % EMU_WARP) return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "barrier for %u threads", count);
  emu_barrier *at = &b->barriers[id[lane]];
  if (at->arrived == 0) *at = (emu_barrier){.expected = count, .all = 1};
  if (at->expected != count)
    return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "barrier for %u threads and for %u", at->expected, count);
  at->arrived += EMU_WARP;
  if (operation == OP_BAR_RED) {
    uint32_t votes = emu_predicate(b, w, p->x[2]) & mask;
    at->votes += (uint32_t)__builtin_popcount(votes);
    at->all &= votes == mask;
    at->any |= votes != 0;
    w->reduction = p;
  }
  w->pc++;
  w->barrier = id[lane];
  if (operation != OP_BAR_ARRIVE) w->state = WARP_AT_BARRIER;
  return true;
}

static bool control(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  uint32_t lane = (uint32_t)__builtin_ctz(mask);
  switch (p->code / 16) {
    case OP_BRA:
      branch(b, w, p->target, mask);
      return true;
    case OP_BRX:
      return branch_indexed(b, w, p, mask);
    case OP_EXIT:
      return leave(w, mask);
    case OP_TRAP:
      return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "trap");
    case OP_BAR:
    case OP_BAR_ARRIVE:
    case OP_BAR_RED:
      return barrier(b, w, p, mask);
    case OP_BAR_WARP: {
      uint32_t want = ((const uint32_t *)emu_row(b, w, p->x[1], b->scratch[0]))[lane] & w->alive;
      if (want & ~mask)
        return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "lanes %08x are named, but %08x arrive", want, mask);
      break;
    }
    default:
      break;
  }
  w->pc++;
  return true;
}

static void rows(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  static emu_rows *const functions[G_ROWS] = {emu_integer, emu_float, emu_half, emu_compare, emu_convert, emu_move};
  const void *s[4] = {NULL, NULL, NULL, NULL};
  for (unsigned n = 0; n < p->sources; n++) s[n] = emu_row(b, w, p->x[1 + n], b->scratch[n]);
  if (mask == UINT32_MAX && p->x[0] && !p->x[5]) {
    functions[p->group](p, w->registers + (size_t)ptx_index(p->x[0]) * 64, NULL, s);
  } else {
    functions[p->group](p, b->scratch[4], p->x[5] ? b->scratch[5] : NULL, s);
    emu_store_row(w, p->x[0], b->scratch[4], mask);
    emu_store_row(w, p->x[5], b->scratch[5], mask);
  }
}

bool emu_warp_run(emu_block *b, emu_warp *w, uint32_t turn) {
  const ptx_instruction *code = b->launch->f->code;
  emu_counts *counts = b->counts;
  uint64_t end = w->executed + turn;
  while (w->state == WARP_READY && w->executed < end) {
    if (w->pc >= w->limit) reconverge(w);
    const ptx_instruction *p = &code[w->pc];
    uint32_t mask = w->active;
    if (p->guard) mask &= emu_predicate(b, w, p->guard);
    w->executed++;
    counts->code[p->code].warps++;
    counts->code[p->code].lanes += (uint32_t)__builtin_popcount(mask);
    if (mask == 0) {
      w->pc++;
    } else if (p->group < G_ROWS) {
      rows(b, w, p, mask);
      w->pc++;
    } else if (p->group == G_CONTROL) {
      if (!control(b, w, p, mask)) return false;
    } else {
      if (!(p->group == G_MEMORY ? emu_memory_access : emu_exchange)(b, w, p, mask)) return false;
      w->pc++;
    }
  }
  return true;
}
