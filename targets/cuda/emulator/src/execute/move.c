/* mov, selp, slct, and packing of small elements in a large one. */
#include <string.h>

#include "execute/lanes.h"

#define SELECT(type, condition)          \
  {                                      \
    const type *a = s[0], *b = s[1];     \
    type *r = d;                         \
    EACH r[i] = condition ? a[i] : b[i]; \
    return;                              \
  }

static uint32_t not_negative(const ptx_instruction *p, const void *row) {
  uint32_t m = 0;
  if (p->second == T_F32) {
    const float *c = row;
    EACH m |= (uint32_t)(c[i] >= 0.0f) << i;
  } else {
    const int32_t *c = row;
    EACH m |= (uint32_t)(c[i] >= 0) << i;
  }
  return m;
}

static void pack(const ptx_instruction *p, void *d, const void *const s[4]) {
  unsigned width = ptx_width(p->x[0]), part = width - (p->vector == 4 ? 2 : 1);
  for (unsigned n = 0; n < p->vector; n++)
    for (unsigned i = 0; i < EMU_WARP; i++)
      memcpy((uint8_t *)d + ((size_t)i << width) + ((size_t)n << part), (const uint8_t *)s[n] + ((size_t)i << part),
             (size_t)1 << part);
}

EMU_CLONES void emu_move(const ptx_instruction *p, void *d, void *q, const void *const s[4]) {
  (void)q;
  unsigned width = ptx_width(p->x[0]);
  unsigned operation = p->code / 16;
  if (operation == OP_MOV) {
    memcpy(d, s[0], (size_t)EMU_WARP << width);
    return;
  }
  if (operation == OP_PACK) {
    pack(p, d, s);
    return;
  }
  uint32_t mask = operation == OP_SELP ? *(const uint32_t *)s[2] : not_negative(p, s[2]);
  if (width == 3) SELECT(uint64_t, (mask >> i & 1))
  if (width == 2) SELECT(uint32_t, (mask >> i & 1))
  SELECT(uint16_t, (mask >> i & 1))
}
