/* What this machine's processor offers: architecture and instructions. */
#include "platform/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>

const char ert_cpu_arch[] = "x86_64";

bool ert_cpu_has_sha256(void) {
  unsigned a, b, c, d;
  bool sse41 = __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_1 && c & bit_SSSE3;
  return sse41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

const char ert_cpu_arch[] = "aarch64";

bool ert_cpu_has_sha256(void) { return getauxval(AT_HWCAP) & HWCAP_SHA2; }

#else
#error "edgert runs on little-endian x86_64 and aarch64"
#endif
