/* What lanes of a warp tell each other, and mov into several registers. */
#include <string.h>

#include "execute/block.h"

/* The lanes that the instruction names must be here. */
static bool check_members(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask, ptx_operand members) {
  if (!members) return true;
  uint32_t lane = (uint32_t)__builtin_ctz(mask);
  uint32_t named = ((const uint32_t *)emu_row(b, w, members, b->scratch[5]))[lane] & w->alive;
  if (!(named & ~mask)) return true;
  return emu_fault(b, w, p, lane, CUDA_ERROR_LAUNCH_FAILED, "lanes %08x are named, but only %08x are here", named,
                   mask);
}

static bool shuffle(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  const uint32_t *a = emu_row(b, w, p->x[1], b->scratch[0]);
  const uint32_t *lanes = emu_row(b, w, p->x[2], b->scratch[1]);
  const uint32_t *c = emu_row(b, w, p->x[3], b->scratch[2]);
  uint32_t result[EMU_WARP] = {0}, valid = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(m), delta = lanes[i] & 31, clamp = c[i] & 31, segment = c[i] >> 8 & 31;
    uint32_t highest = (i & segment) | (clamp & ~segment), lowest = i & segment;
    int32_t from;
    bool ok;
    switch (p->mode) {
      case MODE_UP:
        from = (int32_t)i - (int32_t)delta;
        ok = from >= (int32_t)highest;
        break;
      case MODE_DOWN:
        from = (int32_t)(i + delta);
        ok = from <= (int32_t)highest;
        break;
      case MODE_BUTTERFLY:
        from = (int32_t)(i ^ delta);
        ok = from <= (int32_t)highest;
        break;
      default:
        from = (int32_t)(lowest | (delta & ~segment));
        ok = from <= (int32_t)highest;
        break;
    }
    if (!ok) from = (int32_t)i;
    if (!(mask >> from & 1))
      return emu_fault(b, w, p, i, CUDA_ERROR_LAUNCH_FAILED, "the value of lane %d, which is not here", from);
    result[i] = a[from];
    valid |= (uint32_t)ok << i;
  }
  emu_store_row(w, p->x[0], result, mask);
  emu_store_row(w, p->x[5], &valid, mask);
  return true;
}

static void vote(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  uint32_t named = p->x[2] ? ((const uint32_t *)emu_row(b, w, p->x[2], b->scratch[0]))[__builtin_ctz(mask)] : mask;
  uint32_t holds = emu_predicate(b, w, p->x[1]) & mask & named, here = mask & named, result[EMU_WARP];
  bool one = p->mode == MODE_ALL ? holds == here : p->mode == MODE_ANY ? holds != 0 : holds == here || holds == 0;
  EACH result[i] = p->mode == MODE_BALLOT ? holds : one ? UINT32_MAX : 0;
  emu_store_row(w, p->x[0], result, mask);
}

static uint64_t element(const void *row, unsigned width, uint32_t lane) {
  return width == 3 ? ((const uint64_t *)row)[lane] : ((const uint32_t *)row)[lane];
}

static void match(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  const void *a = emu_row(b, w, p->x[1], b->scratch[0]);
  unsigned width = ptx_width(p->x[1]);
  uint32_t result[EMU_WARP] = {0}, all = UINT32_MAX;
  for (uint32_t i = 0; i < EMU_WARP; i++)
    for (uint32_t n = 0; n < EMU_WARP; n++)
      if (mask >> i & mask >> n & 1 && element(a, width, i) == element(a, width, n)) result[i] |= 1u << n;
  if (p->mode == MODE_ALL) {
    if (result[__builtin_ctz(mask)] != mask) all = 0;
    EACH result[i] = all ? mask : 0;
  }
  emu_store_row(w, p->x[0], result, mask);
  emu_store_row(w, p->x[5], &all, mask);
}

static void reduce(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  const uint32_t *a = emu_row(b, w, p->x[1], b->scratch[0]);
  uint32_t first = (uint32_t)__builtin_ctz(mask), result[EMU_WARP];
  uint64_t value = a[first];
  for (uint32_t m = mask & (mask - 1); m; m &= m - 1) value = (uint32_t)emu_atomic(p, value, a[__builtin_ctz(m)], 0);
  EACH result[i] = (uint32_t)value;
  emu_store_row(w, p->x[0], result, mask);
}

static void unpack(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  const uint8_t *a = emu_row(b, w, p->x[4], b->scratch[0]);
  unsigned width = ptx_width(p->x[4]), part = width - (p->vector == 4 ? 2 : 1);
  for (unsigned n = 0; n < p->vector; n++) {
    uint8_t row[EMU_WARP * 8];
    for (size_t i = 0; i < EMU_WARP; i++)
      memcpy(row + (i << part), a + (i << width) + ((size_t)n << part), (size_t)1 << part);
    emu_store_row(w, p->x[n], row, mask);
  }
}

bool emu_exchange(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  uint32_t row[EMU_WARP];
  switch (p->code / 16) {
    case OP_SHFL:
      return check_members(b, w, p, mask, p->x[4]) && shuffle(b, w, p, mask);
    case OP_VOTE:
      if (!check_members(b, w, p, mask, p->x[2])) return false;
      vote(b, w, p, mask);
      return true;
    case OP_MATCH:
      if (!check_members(b, w, p, mask, p->x[2])) return false;
      match(b, w, p, mask);
      return true;
    case OP_REDUX:
      if (!check_members(b, w, p, mask, p->x[2])) return false;
      reduce(b, w, p, mask);
      return true;
    case OP_ACTIVEMASK:
      EACH row[i] = mask;
      emu_store_row(w, p->x[0], row, mask);
      return true;
    default:
      unpack(b, w, p, mask);
      return true;
  }
}
