/* Loads, stores and atomic operations: every lane's address is proven to lie in memory that is its to touch. */
#include <string.h>

#include "execute/block.h"

/* One instruction's access: where each lane's bytes are, and their shadow (NULL: none is kept). */
typedef struct access {
  const ptx_instruction *p;
  uint32_t mask;
  unsigned size, bytes; /* of an element, and of all that a lane accesses */
  bool store, load;
  bool run; /* the lanes' bytes follow each other */
  uint64_t address[EMU_WARP];
  uint8_t *host[EMU_WARP], *shadow[EMU_WARP];
  uint32_t torn[4]; /* lanes whose element another warp has written otherwise since the last barrier */
} access;

EMU_CLONES static void add_base(uint64_t *address, const void *row, unsigned width, uint64_t offset) {
  const uint64_t *r64 = row;
  const uint32_t *r32 = row;
  if (!row) {
    EACH address[i] = offset;
  } else if (width == 3) {
    EACH address[i] = r64[i] + offset;
  } else {
    EACH address[i] = (uint32_t)(r32[i] + offset);
  }
}

/* The least and greatest address; lanes that do not take part repeat the first one that does. */
EMU_CLONES static void survey(access *a, uint64_t *low, uint64_t *high, uint64_t *bits) {
  uint64_t first = a->address[__builtin_ctz(a->mask)], l = first, h = first, o = 0, gap = 0;
  uint64_t *address = a->address;
  uint32_t mask = a->mask;
  EACH address[i] = mask >> i & 1 ? address[i] : first;
  EACH {
    l = address[i] < l ? address[i] : l;
    h = address[i] > h ? address[i] : h;
    o |= address[i];
    gap |= address[i] ^ (first + (uint64_t)i * a->bytes);
  }
  *low = l;
  *high = h;
  *bits = o;
  a->run = mask == UINT32_MAX && gap == 0;
}

static bool out_of_bounds(emu_block *b, emu_warp *w, const access *a, uint32_t lane, const char *what) {
  return emu_fault(b, w, a->p, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "%s of %u bytes at 0x%llx %s",
                   a->store ? "store" : "load", a->bytes, (unsigned long long)a->address[lane], what);
}

static bool place_global(emu_block *b, emu_warp *w, access *a, uint32_t lanes, uint64_t low, uint64_t high) {
  const emu_region *r = b->region;
  bool checked = b->launch->settings->check_memory;
  bool one = r && low >= r->address && high - r->address <= r->bytes && a->bytes <= r->bytes - (high - r->address);
  for (uint32_t m = lanes; m; m &= m - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(m);
    if (!one) {
      uint64_t offset = r ? a->address[i] - r->address : 0;
      if (!r || offset > r->bytes || a->bytes > r->bytes - offset) r = emu_region_find(a->address[i], a->bytes);
      if (!r && checked) return out_of_bounds(b, w, a, i, "is in no allocation");
    }
    if (r && r->read_only && a->store && checked) return out_of_bounds(b, w, a, i, "is in constant memory");
    uint64_t offset = r ? a->address[i] - r->address : 0;
    a->host[i] = r ? r->host + offset : (uint8_t *)(uintptr_t)(a->address[i] & ~EMU_DEVICE_BIT);
    a->shadow[i] = r && r->shadow ? r->shadow + offset : NULL;
  }
  b->region = r;
  return true;
}

/* Lanes in a space of the block: `limit` bytes at `host`, with `stride` between threads (local memory only). */
static bool place_in(emu_block *b, emu_warp *w, access *a, uint32_t lanes, uint8_t *host, uint8_t *shadow,
                     uint64_t limit, uint64_t stride, const char *what) {
  for (uint32_t m = lanes; m; m &= m - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(m);
    uint64_t offset = a->address[i];
    if (offset > limit || a->bytes > limit - offset) return out_of_bounds(b, w, a, i, what);
    offset += stride * (w->index * EMU_WARP + i);
    a->host[i] = host + offset;
    a->shadow[i] = shadow ? shadow + offset : NULL;
  }
  return true;
}

static bool place(emu_block *b, emu_warp *w, access *a, uint32_t lanes, ptx_space space, uint64_t low, uint64_t high) {
  const ptx_function *f = b->launch->f;
  switch (space) {
    case SPACE_SHARED:
      return place_in(b, w, a, lanes, b->shared, b->shared_shadow, b->shared_bytes, 0, "is outside of shared memory");
    case SPACE_LOCAL:
      return place_in(b, w, a, lanes, b->local, b->local_shadow, f->local_bytes, f->local_bytes,
                      "is outside of local memory");
    case SPACE_PARAM:
      if (a->store) return out_of_bounds(b, w, a, (uint32_t)__builtin_ctz(lanes), "is in the parameters");
      return place_in(b, w, a, lanes, (uint8_t *)(uintptr_t)b->launch->parameters, NULL, f->parameter_bytes, 0,
                      "is outside of the parameters");
    default:
      return place_global(b, w, a, lanes, low, high);
  }
}

static bool initialised(const uint8_t *shadow, unsigned bytes) {
  for (unsigned n = 0; n < bytes; n++)
    if (!shadow[n]) return false;
  return true;
}

/* Loads want written bytes, stores write them. */
static bool check_shadow(emu_block *b, emu_warp *w, const access *a) {
  bool check = a->load && b->launch->settings->check_uninitialized;
  uint32_t first = (uint32_t)__builtin_ctz(a->mask);
  if (a->run && (check || a->store) && a->shadow[0] && a->shadow[31] == a->shadow[0] + 31 * (size_t)a->bytes) {
    if (check && !memchr(a->shadow[0], 0, 32 * (size_t)a->bytes)) check = false;
    if (!check) {
      if (a->store) memset(a->shadow[0], 1, 32 * (size_t)a->bytes);
      return true;
    }
  }
  for (uint32_t m = a->mask; m; m &= m - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(m);
    if (!a->shadow[i] || (i != first && a->shadow[i] == a->shadow[first] && !a->store)) continue;
    if (check && !initialised(a->shadow[i], a->bytes))
      return emu_fault(b, w, a->p, i, CUDA_ERROR_LAUNCH_FAILED, "load of %u bytes at 0x%llx that nobody wrote",
                       a->bytes, (unsigned long long)a->address[i]);
    if (a->store) memset(a->shadow[i], 1, a->bytes);
  }
  return true;
}

/* Whether a store leaves byte n of a lane as it is. */
static bool same_byte(emu_block *b, const emu_warp *w, const access *a, uint32_t lane, unsigned n) {
  unsigned element = n / a->size;
  ptx_operand x = a->p->x[element];
  const uint8_t *row = emu_row(b, w, x, b->scratch[element]);
  return row[((size_t)lane << ptx_width(x)) + n % a->size] == a->host[lane][n];
}

/* Whether a warp reads what another one writes between the same barriers, so that the order decides what happens.
   Several may write a byte: it belongs to none of them then. What they do not write alike is torn. */
static bool check_races(emu_block *b, emu_warp *w, access *a, uint32_t lanes) {
  enum { SEVERAL = 63 };
  uint32_t self = b->epoch * 64 + w->index, several = b->epoch * 64 + SEVERAL;
  for (uint32_t m = lanes; m; m &= m - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(m);
    emu_touch *t = b->touches + (a->host[i] - b->shared);
    for (unsigned n = 0; n < a->bytes; n++) {
      bool written = t[n].writer / 64 == b->epoch && t[n].writer != self;
      bool read = a->store && t[n].reader / 64 == b->epoch && t[n].reader != self;
      bool again = written && a->store;
      if ((written && !again) || read)
        return emu_fault(b, w, a->p, i, CUDA_ERROR_LAUNCH_FAILED,
                         "race: byte 0x%llx of shared memory was %s by another warp since the last barrier",
                         (unsigned long long)(a->host[i] - b->shared + n), read ? "read" : "written");
      if (again && !same_byte(b, w, a, i, n)) a->torn[n / a->size] |= 1u << i;
      if (a->store)
        t[n].writer = again ? several : self;
      else
        t[n].reader = t[n].reader / 64 == b->epoch && t[n].reader != self ? several : self;
    }
  }
  return true;
}

/* Sectors of 32 bytes that the lanes touch. */
static uint64_t count_sectors(const access *a) {
  if (a->run) return (a->address[31] + a->bytes - 1) / 32 - a->address[0] / 32 + 1;
  uint64_t seen[128], count = 0;
  uint8_t used[128] = {0};
  for (uint32_t m = a->mask; m; m &= m - 1) {
    uint64_t sector = a->address[__builtin_ctz(m)] / 32; /* aligned accesses lie in one */
    unsigned slot = (unsigned)(sector * 0x9e3779b1u >> 8) & 127;
    while (used[slot] && seen[slot] != sector) slot = (slot + 1) & 127;
    if (used[slot]) continue;
    used[slot] = 1;
    seen[slot] = sector;
    count++;
  }
  return count;
}

/* Cycles of shared memory: 8- and 16-byte accesses are served by halves and quarters of the warp. */
static uint64_t count_cycles(const access *a) {
  unsigned words = a->bytes > 4 ? a->bytes / 4 : 1, lanes = EMU_WARP / words;
  if (a->run) return words;
  uint64_t cycles = 0;
  for (unsigned begin = 0; begin < EMU_WARP; begin += lanes) {
    uint64_t seen[EMU_WARP][4], most = 0;
    uint8_t used[EMU_WARP] = {0};
    for (unsigned i = begin; i < begin + lanes; i++) {
      if (!(a->mask >> i & 1)) continue;
      for (unsigned n = 0; n < words; n++) {
        uint64_t word = a->address[i] / 4 + n;
        unsigned bank = word % 32, k = 0;
        while (k < used[bank] && k < 4 && seen[bank][k] != word) k++;
        if (k < used[bank] && k < 4) continue;
        if (k < 4) seen[bank][k] = word; /* beyond four, words that come again are counted again */
        used[bank]++;
        if (used[bank] > most) most = used[bank];
      }
    }
    cycles += most;
  }
  return cycles;
}

static void count(emu_block *b, const access *a, ptx_space space) {
  if (space == SPACE_SHARED) {
    b->counts->shared_requests++;
    b->counts->shared_cycles += count_cycles(a);
  } else if (space == SPACE_GLOBAL) {
    b->counts->global_requests++;
    b->counts->global_sectors += count_sectors(a);
  }
}

/* Finds the bytes of all lanes, and checks them. */
static bool prepare(emu_block *b, emu_warp *w, access *a) {
  const ptx_instruction *p = a->p;
  uint64_t low, high, bits;
  survey(a, &low, &high, &bits);
  bool check = b->launch->settings->check_memory;
  if (check && (bits & (a->bytes - 1))) {
    uint32_t lane = 0;
    while (!(a->address[lane] & (a->bytes - 1))) lane++;
    return emu_fault(b, w, p, lane, CUDA_ERROR_MISALIGNED_ADDRESS, "address 0x%llx of %u bytes",
                     (unsigned long long)a->address[lane], a->bytes);
  }
  for (uint32_t rest = a->mask; rest;) {
    uint32_t lanes = rest, first = (uint32_t)__builtin_ctz(rest);
    ptx_space space = p->space == SPACE_CONST ? SPACE_GLOBAL : (ptx_space)p->space;
    if (space == SPACE_GENERIC) {
      space = emu_space_of(a->address[first]);
      for (uint32_t i = first; i < EMU_WARP; i++)
        if (emu_space_of(a->address[i]) != space) lanes &= ~(1u << i);
      for (uint32_t m = lanes; m; m &= m - 1) a->address[__builtin_ctz(m)] -= emu_space_base(space);
    }
    if (!place(b, w, a, lanes, space, low, high)) return false;
    if (space == SPACE_SHARED && p->code / 16 != OP_ATOM && p->code / 16 != OP_RED &&
        b->launch->settings->check_races && b->warp_count > 1 && !check_races(b, w, a, lanes))
      return false;
    if (lanes == a->mask && p->space != SPACE_CONST) count(b, a, space);
    rest &= ~lanes;
  }
  return check_shadow(b, w, a);
}

#define EACH_ACTIVE(mask) for (uint32_t m_ = (mask), i; m_ && (i = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* One element of each lane into a register, extended if that is wider. */
static void load_element(emu_warp *w, const access *a, ptx_operand x, unsigned at, bool has_sign) {
  if (!x) return;
  unsigned width = ptx_width(x), size = a->size;
  uint8_t *row = w->registers + (size_t)ptx_index(x) * 64;
  if (1u << width == size && size == 4) {
    EACH_ACTIVE(a->mask) memcpy(row + (size_t)i * 4, a->host[i] + at, 4);
    return;
  }
  EACH_ACTIVE(a->mask) {
    uint64_t bits = 0;
    memcpy(&bits, a->host[i] + at, size);
    unsigned spare = 64 - 8 * size;
    if (has_sign) bits = (uint64_t)((int64_t)(bits << spare) >> spare);
    memcpy(row + ((size_t)i << width), &bits, (size_t)1 << width);
  }
}

static void store_element(const access *a, const void *row, unsigned width, unsigned at) {
  if (a->size == 4) {
    EACH_ACTIVE(a->mask) memcpy(a->host[i] + at, (const uint8_t *)row + ((size_t)i << width), 4);
    return;
  }
  EACH_ACTIVE(a->mask) memcpy(a->host[i] + at, (const uint8_t *)row + ((size_t)i << width), a->size);
}

static bool contiguous(const access *a) { return a->run && a->host[31] == a->host[0] + 31 * (size_t)a->bytes; }

static void load(emu_warp *w, const access *a) {
  const ptx_instruction *p = a->p;
  bool has_sign = ptx_signed((ptx_type)(p->code % 16));
  if (p->vector == 1 && p->x[0] && 1u << ptx_width(p->x[0]) == a->size && contiguous(a)) {
    memcpy(w->registers + (size_t)ptx_index(p->x[0]) * 64, a->host[0], 32 * (size_t)a->size);
    return;
  }
  for (unsigned n = 0; n < p->vector; n++) load_element(w, a, p->x[n], n * a->size, has_sign);
}

static void store(emu_block *b, emu_warp *w, const access *a) {
  const ptx_instruction *p = a->p;
  for (unsigned n = 0; n < p->vector; n++) {
    const void *row = emu_row(b, w, p->x[n], b->scratch[n]);
    unsigned width = ptx_width(p->x[n]);
    if (p->vector == 1 && 1u << width == a->size && contiguous(a))
      memcpy(a->host[0], row, 32 * (size_t)a->size);
    else
      store_element(a, row, width, n * a->size);
    EACH_ACTIVE(a->torn[n]) memset(a->host[i] + n * a->size, 0xff, a->size); /* NaN, so that whoever uses it is found */
  }
}

static void atomics(emu_block *b, emu_warp *w, const access *a) {
  const ptx_instruction *p = a->p;
  const uint8_t *value = emu_row(b, w, p->x[6], b->scratch[0]), *other = emu_row(b, w, p->x[7], b->scratch[1]);
  uint8_t *old = (uint8_t *)b->scratch[2];
  pthread_mutex_lock(&b->launch->atomics);
  EACH_ACTIVE(a->mask) {
    uint64_t bits = 0, x = 0, y = 0;
    memcpy(&bits, a->host[i], a->size);
    memcpy(&x, value + (size_t)i * a->size, a->size);
    if (other) memcpy(&y, other + (size_t)i * a->size, a->size);
    uint64_t result = emu_atomic(p, bits, x, y);
    memcpy(old + (size_t)i * a->size, &bits, a->size);
    memcpy(a->host[i], &result, a->size);
  }
  pthread_mutex_unlock(&b->launch->atomics);
  if (p->code / 16 == OP_ATOM) emu_store_row(w, p->x[0], old, a->mask);
}

bool emu_memory_access(emu_block *b, emu_warp *w, const ptx_instruction *p, uint32_t mask) {
  unsigned operation = p->code / 16, size = ptx_bytes((ptx_type)(p->code % 16));
  access a = {.p = p, .mask = mask, .size = size, .bytes = size * (p->vector ? p->vector : 1)};
  a.load = operation != OP_ST;
  a.store = operation != OP_LD;
  const void *base = emu_row(b, w, p->x[4], b->scratch[3]);
  add_base(a.address, base, ptx_width(p->x[4]), b->launch->f->constants[ptx_index(p->x[5])]);
  if (!prepare(b, w, &a)) return false;
  if (operation == OP_LD)
    load(w, &a);
  else if (operation == OP_ST)
    store(b, w, &a);
  else
    atomics(b, w, &a);
  return true;
}
