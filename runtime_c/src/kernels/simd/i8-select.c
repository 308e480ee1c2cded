/* Which inner loop of bytes goes with a table of instructions. */
#include <string.h>

#include "kernels/simd/i8.h"

ert_i8_dense_fn ert_i8_dense_scalar, ert_i8_dense_sse2, ert_i8_dense_avx2, ert_i8_dense_vnni, ert_i8_dense_neon;

ert_i8_dense_fn *ert_i8_dense_of(const ert_simd *simd) {
  (void)simd;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strncmp(simd->name, "avx512", 6) == 0) /* with or without products of bf16 */
    return __builtin_cpu_supports("avx512vnni") ? ert_i8_dense_vnni : ert_i8_dense_avx2;
  if (strcmp(simd->name, "avx2") == 0) return ert_i8_dense_avx2;
  if (strcmp(simd->name, "sse2") == 0) return ert_i8_dense_sse2;
#elif defined(__aarch64__)
  if (strcmp(simd->name, "neon") == 0) return ert_i8_dense_neon;
#endif
  return ert_i8_dense_scalar;
}
