/* Which instruction sets this machine executes, found once by asking the processor. */
#include <string.h>

#include "kernels/simd/simd.h"

extern const ert_simd ert_simd_scalar, ert_simd_sse2, ert_simd_avx2, ert_simd_avx512, ert_simd_avx512bf16,
    ert_simd_neon;

#if defined(__x86_64__)

static const ert_simd *const all[] = {&ert_simd_avx512bf16, &ert_simd_avx512, &ert_simd_avx2,
                                      &ert_simd_sse2,       &ert_simd_scalar, NULL};

const ert_simd *const *ert_simd_available(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return all + 3;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!wide) return all + 2;
  return __builtin_cpu_supports("avx512bf16") ? all : all + 1;
}

#elif defined(__aarch64__)

static const ert_simd *const all[] = {&ert_simd_neon, &ert_simd_scalar, NULL};

const ert_simd *const *ert_simd_available(void) { return all; }

#else

static const ert_simd *const all[] = {&ert_simd_scalar, NULL};

const ert_simd *const *ert_simd_available(void) { return all; }

#endif

const ert_simd *ert_simd_find(const char *isa) {
  const ert_simd *const *table = ert_simd_available();
  while (isa && *table && strcmp((*table)->name, isa) != 0) table++;
  return *table;
}
