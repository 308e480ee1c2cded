/* Instructions that map rows of 32 lanes to rows: no memory, no control. All lanes are computed; the caller keeps those
 * that are active. */
#ifndef EMU_EXECUTE_LANES_H
#define EMU_EXECUTE_LANES_H

#include "base/device.h"
#include "ptx/program.h"

/* Iterations of the loop behind it do not depend on each other. */
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* A loop over the lanes: rows either coincide or do not overlap. */
#define EACH INDEPENDENT for (unsigned i = 0; i < EMU_WARP; i++)

/* Compiled for several instruction sets; the loader picks one. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define EMU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EMU_CLONES
#endif

/* d: destination, q: second predicate of setp, or NULL; s: the sources. Predicates are words of 32 bits. */
typedef void emu_rows(const ptx_instruction *p, void *d, void *q, const void *const s[4]);

emu_rows emu_integer, emu_float, emu_half, emu_compare, emu_convert, emu_move;

/* The smaller and the larger number; -0 is below +0, and a NaN gives way to a number. */
#define EMU_EXTREMES(type, least, greatest)     \
  static inline type least(type a, type b) {    \
    if (a == b) return signbit(a) ? a : b;      \
    return a < b || b != b ? a : b;             \
  }                                             \
  static inline type greatest(type a, type b) { \
    if (a == b) return signbit(a) ? b : a;      \
    return a > b || b != b ? a : b;             \
  }

/* A half as a float, and the nearest half of a float. */
float emu_half_to_float(uint16_t half);
uint16_t emu_float_to_half(double value, ptx_rounding rounding);

/* Addresses of shared, local and parameter memory in the generic space; those of device memory have EMU_DEVICE_BIT. */
#define EMU_SHARED_BASE    ((uint64_t)1 << 57)
#define EMU_LOCAL_BASE     ((uint64_t)1 << 56)
#define EMU_PARAMETER_BASE ((uint64_t)1 << 55)

static inline ptx_space emu_space_of(uint64_t generic) {
  if (generic >> 58) return SPACE_GLOBAL;
  if (generic >> 57) return SPACE_SHARED;
  if (generic >> 56) return SPACE_LOCAL;
  return generic >> 55 ? SPACE_PARAM : SPACE_GLOBAL;
}

static inline uint64_t emu_space_base(ptx_space space) {
  return space == SPACE_SHARED  ? EMU_SHARED_BASE
         : space == SPACE_LOCAL ? EMU_LOCAL_BASE
         : space == SPACE_PARAM ? EMU_PARAMETER_BASE
                                : 0;
}

#endif
