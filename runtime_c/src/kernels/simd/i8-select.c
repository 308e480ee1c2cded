/* Which inner loops of bytes go with a table of instructions. */
#include <string.h>

#include "kernels/simd/i8.h"

extern const ert_i8 ert_i8_scalar, ert_i8_sse2, ert_i8_avx2, ert_i8_avxvnni, ert_i8_vnni, ert_i8_neon, ert_i8_dotprod,
    ert_i8_i8mm;

const ert_i8 *ert_i8_of(const ert_simd *simd) {
  (void)simd;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strncmp(simd->name, "avx512", 6) == 0) /* with or without products of bf16 */
    return __builtin_cpu_supports("avx512vnni") ? &ert_i8_vnni : &ert_i8_avx2;
#if EDGERT_HAS_AVXVNNI
  if (strcmp(simd->name, "avx2vnni") == 0) return &ert_i8_avxvnni;
#endif
  if (strcmp(simd->name, "avx2") == 0) return &ert_i8_avx2;
  if (strcmp(simd->name, "sse2") == 0) return &ert_i8_sse2;
#elif defined(__aarch64__)
#if EDGERT_HAS_I8MM
  if (strcmp(simd->name, "neoni8mm") == 0) return &ert_i8_i8mm;
#endif
  if (strcmp(simd->name, "neondotprod") == 0) return &ert_i8_dotprod;
  if (strcmp(simd->name, "neon") == 0) return &ert_i8_neon;
#endif
  return &ert_i8_scalar;
}
