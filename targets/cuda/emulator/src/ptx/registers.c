/* Rows for virtual registers: liveness over basic blocks, then a linear scan of the intervals.
 *
 * Compilers number tens of thousands of virtual registers; with rows of their own they would leave the cache. Rows are
 * per lane, so what holds for the path of one thread holds for threads that diverge. */
#include <stdlib.h>
#include <string.h>

#include "ptx/parser.h"

typedef struct flow {
  ptx_function *f;
  uint32_t count, words, blocks;
  uint32_t *block_of, *first;      /* of instructions; first instruction of each block, and the end */
  uint64_t *used, *defined, *live; /* by block: before a definition; surely; on entry */
  uint32_t *from, *to;             /* the interval of each register; from > to: it never occurs */
} flow;

static void mark_leader(flow *w, uint32_t i) {
  if (i < w->f->instructions) w->block_of[i] = 1;
}

static bool ends_block(const ptx_instruction *i) {
  unsigned operation = i->code / 16;
  return operation == OP_BRA || operation == OP_BRX || operation == OP_EXIT;
}

static void find_blocks(flow *w) {
  const ptx_function *f = w->f;
  mark_leader(w, 0);
  for (uint32_t i = 0; i < f->instructions; i++) {
    const ptx_instruction *p = &f->code[i];
    if (!ends_block(p)) continue;
    mark_leader(w, i + 1);
    if (p->code / 16 == OP_BRA) mark_leader(w, p->target);
    if (p->code / 16 == OP_BRX)
      for (uint32_t n = 1; n <= f->targets[p->target]; n++) mark_leader(w, f->targets[p->target + n]);
  }
  for (uint32_t i = 0; i < f->instructions; i++) {
    if (w->block_of[i]) w->first[w->blocks++] = i;
    w->block_of[i] = w->blocks - 1;
  }
  w->first[w->blocks] = f->instructions;
}

static bool is_register(ptx_operand x) { return ptx_kind(x) == OPERAND_REGISTER; }

static void scan_block(flow *w, uint32_t b) {
  uint64_t *used = w->used + (size_t)b * w->words, *defined = w->defined + (size_t)b * w->words;
  for (uint32_t i = w->first[b]; i < w->first[b + 1]; i++) {
    const ptx_instruction *p = &w->f->code[i];
    for (unsigned s = 0; s <= PTX_OPERANDS; s++) {
      ptx_operand x = s < PTX_OPERANDS ? p->x[s] : p->guard;
      if (!is_register(x) || (s < PTX_OPERANDS && ptx_writes(p, s))) continue;
      uint32_t r = ptx_index(x);
      if (!(defined[r / 64] >> r % 64 & 1)) used[r / 64] |= (uint64_t)1 << r % 64;
    }
    for (unsigned s = 0; s < PTX_OPERANDS && !p->guard; s++)
      if (is_register(p->x[s]) && ptx_writes(p, s))
        defined[ptx_index(p->x[s]) / 64] |= (uint64_t)1 << ptx_index(p->x[s]) % 64;
  }
  memcpy(w->live + (size_t)b * w->words, used, w->words * sizeof *used);
}

/* Adds what is live on entry to block `to` to what block `b` needs; true if something is new. */
static bool flow_back(flow *w, uint32_t b, uint32_t to) {
  const uint64_t *out = w->live + (size_t)to * w->words, *defined = w->defined + (size_t)b * w->words;
  uint64_t *in = w->live + (size_t)b * w->words;
  bool changed = false;
  for (uint32_t n = 0; n < w->words; n++) {
    uint64_t more = out[n] & ~defined[n] & ~in[n];
    if (more) in[n] |= more, changed = true;
  }
  return changed;
}

static void extend(flow *w, uint32_t r, uint32_t at) {
  if (w->from[r] > at) w->from[r] = at;
  if (w->to[r] < at || w->to[r] == UINT32_MAX) w->to[r] = at;
}

/* Registers live on entry to `to` are live at the end of block `b`. */
static bool extend_out(flow *w, uint32_t b, uint32_t to) {
  const uint64_t *live = w->live + (size_t)to * w->words;
  for (uint32_t n = 0; n < w->words; n++)
    for (uint64_t bits = live[n]; bits; bits &= bits - 1)
      extend(w, n * 64 + (uint32_t)__builtin_ctzll(bits), w->first[b + 1] - 1);
  return false;
}

/* Calls `visit` for each successor of the block; true if one of the calls is. */
static bool each_successor(flow *w, uint32_t b, bool (*visit)(flow *w, uint32_t b, uint32_t to)) {
  const ptx_instruction *last = &w->f->code[w->first[b + 1] - 1];
  bool any = false;
  if (last->code / 16 == OP_BRA) any |= last->target < w->f->instructions && visit(w, b, w->block_of[last->target]);
  if (last->code / 16 == OP_BRX)
    for (uint32_t n = 1; n <= w->f->targets[last->target]; n++)
      any |= visit(w, b, w->block_of[w->f->targets[last->target + n]]);
  bool falls = !ends_block(last) || last->guard;
  if (falls && b + 1 < w->blocks) any |= visit(w, b, b + 1);
  return any;
}

static void find_intervals(flow *w) {
  for (uint32_t b = 0; b < w->blocks; b++) scan_block(w, b);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t b = w->blocks; b > 0; b--) changed |= each_successor(w, b - 1, flow_back);
  }
  for (uint32_t r = 0; r < w->count; r++) w->from[r] = w->to[r] = UINT32_MAX;
  for (uint32_t b = 0; b < w->blocks; b++) {
    const uint64_t *live = w->live + (size_t)b * w->words;
    for (uint32_t n = 0; n < w->words; n++)
      for (uint64_t bits = live[n]; bits; bits &= bits - 1)
        extend(w, n * 64 + (uint32_t)__builtin_ctzll(bits), w->first[b]);
    each_successor(w, b, extend_out);
    for (uint32_t i = w->first[b]; i < w->first[b + 1]; i++) {
      const ptx_instruction *p = &w->f->code[i];
      if (is_register(p->guard)) extend(w, ptx_index(p->guard), i);
      for (unsigned s = 0; s < PTX_OPERANDS; s++)
        if (is_register(p->x[s])) extend(w, ptx_index(p->x[s]), i);
    }
  }
}

/* Rows that are free, by their size; a row is freed after the instruction that needs it last, so that the destination of
 * an instruction never shares one with a source of another width. */
typedef struct rows {
  uint32_t *free[5]; /* by units of 64 bytes: 1, 2 or 4 */
  uint32_t free_count[5], end, live;
} rows;

static uint32_t take(rows *r, unsigned units) {
  if (r->free_count[units]) return r->free[units][--r->free_count[units]];
  uint32_t row = r->end;
  r->end += units;
  return row;
}

static void scan_intervals(flow *w, const uint8_t *widths, rows *r, uint32_t *head, uint32_t *next, uint32_t *ending,
                           uint32_t *row) {
  static const uint8_t units[5] = {1, 1, 2, 4, 1}, weight[5] = {1, 1, 1, 2, 0};
  uint32_t *next_ending = next + w->count;
  for (uint32_t v = w->count; v > 0; v--) {
    if (w->from[v - 1] == UINT32_MAX) continue;
    next[v - 1] = head[w->from[v - 1]];
    head[w->from[v - 1]] = v;
    next_ending[v - 1] = ending[w->to[v - 1]];
    ending[w->to[v - 1]] = v;
  }
  for (uint32_t i = 0; i < w->f->instructions; i++) {
    for (uint32_t v = head[i]; v; v = next[v - 1]) {
      row[v - 1] = take(r, units[widths[v - 1]]);
      r->live += weight[widths[v - 1]];
    }
    if (r->live > w->f->register_count) w->f->register_count = r->live;
    for (uint32_t v = ending[i]; v; v = next_ending[v - 1]) {
      unsigned u = units[widths[v - 1]];
      r->free[u][r->free_count[u]++] = row[v - 1];
      r->live -= weight[widths[v - 1]];
    }
  }
}

static void rewrite(ptx_operand *x, const uint32_t *row) {
  if (is_register(*x)) *x = (*x & ~(ptx_operand)PTX_MAX_INDEX) | row[ptx_index(*x)];
}

bool ptx_assign_registers(ptx_function *f, const uint8_t *widths, uint32_t count) {
  flow w = {.f = f, .count = count, .words = count / 64 + 1};
  rows r = {0};
  uint32_t n = f->instructions;
  w.block_of = calloc(n, sizeof *w.block_of);
  w.first = calloc((size_t)n + 1, sizeof *w.first);
  if (w.block_of && w.first) find_blocks(&w);
  size_t bits = (size_t)w.blocks * w.words;
  w.used = calloc(bits + 1, sizeof *w.used);
  w.defined = calloc(bits + 1, sizeof *w.defined);
  w.live = calloc(bits + 1, sizeof *w.live);
  w.from = calloc((size_t)count + 1, sizeof *w.from);
  w.to = calloc((size_t)count + 1, sizeof *w.to);
  uint32_t *lists = calloc((size_t)n * 2 + (size_t)count * 6 + 1, sizeof *lists);
  bool ok = w.block_of && w.first && w.used && w.defined && w.live && w.from && w.to && lists;
  if (ok) {
    uint32_t *head = lists, *ending = lists + n, *next = ending + n, *row = next + (size_t)count * 2;
    r.free[1] = row + count;
    r.free[2] = r.free[1] + count;
    r.free[4] = r.free[2] + count;
    find_intervals(&w);
    scan_intervals(&w, widths, &r, head, next, ending, row);
    for (uint32_t i = 0; i < n; i++) {
      rewrite(&f->code[i].guard, row);
      for (unsigned s = 0; s < PTX_OPERANDS; s++) rewrite(&f->code[i].x[s], row);
    }
    f->registers = r.end;
  }
  free(w.block_of);
  free(w.first);
  free(w.used);
  free(w.defined);
  free(w.live);
  free(w.from);
  free(w.to);
  free(lists);
  return ok;
}
