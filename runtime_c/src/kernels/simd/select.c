/* Which instruction sets this machine executes, found once by asking the processor. */
#include <string.h>

#include "kernels/simd/simd.h"

extern const ert_simd ert_simd_scalar, ert_simd_sse2, ert_simd_avx2, ert_simd_avx2vnni, ert_simd_avx512,
    ert_simd_avx512bf16, ert_simd_neon, ert_simd_neondotprod, ert_simd_neoni8mm;

#if defined(__x86_64__)

#include <cpuid.h>

static const ert_simd *const wide[] = {&ert_simd_avx512bf16, &ert_simd_avx512, &ert_simd_avx2,
                                       &ert_simd_sse2,       &ert_simd_scalar, NULL};
static const ert_simd *const narrow[] = {&ert_simd_avx2vnni, &ert_simd_avx2, &ert_simd_sse2, &ert_simd_scalar, NULL};

/* AVX-VNNI, which not every compiler can ask for. */
static bool has_vnni(void) {
#if EDGERT_HAS_AVXVNNI
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
#else
  return false;
#endif
}

const ert_simd *const *ert_simd_available(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return narrow + 2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2"))
    return __builtin_cpu_supports("avx512bf16") ? wide : wide + 1;
  return has_vnni() ? narrow : narrow + 1;
}

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

#ifndef HWCAP2_I8MM /* in headers of Linux before 5.10 */
#define HWCAP2_I8MM (1 << 13)
#endif

static const ert_simd *const all[] = {&ert_simd_neoni8mm, &ert_simd_neondotprod, &ert_simd_neon, &ert_simd_scalar,
                                      NULL};

const ert_simd *const *ert_simd_available(void) {
  if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return all + 2;
  return EDGERT_HAS_I8MM && getauxval(AT_HWCAP2) & HWCAP2_I8MM ? all : all + 1;
}

#else

static const ert_simd *const all[] = {&ert_simd_scalar, NULL};

const ert_simd *const *ert_simd_available(void) { return all; }

#endif

const ert_simd *ert_simd_find(const char *isa) {
  const ert_simd *const *table = ert_simd_available();
  while (isa && *table && strcmp((*table)->name, isa) != 0) table++;
  return *table;
}
