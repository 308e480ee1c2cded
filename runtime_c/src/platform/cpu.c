/* What this machine's processor offers: architecture and instructions. */
#include "platform/cpu.h"

#if defined(__x86_64__)

const char ert_cpu_arch[] = "x86_64";

/* The C library asked the processor when the program started; virtual machines take 20 us for an answer. */
#if __has_include(<sys/platform/x86.h>)

#include <sys/platform/x86.h>

bool ert_cpu_has_sha256(void) {
  return CPU_FEATURE_ACTIVE(SSSE3) && CPU_FEATURE_ACTIVE(SSE4_1) && CPU_FEATURE_ACTIVE(SHA);
}

#else

#include <cpuid.h>

bool ert_cpu_has_sha256(void) {
  unsigned a, b, c, d;
  __builtin_cpu_init();
  bool sse41 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1");
  return sse41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

#endif

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

const char ert_cpu_arch[] = "aarch64";

bool ert_cpu_has_sha256(void) { return getauxval(AT_HWCAP) & HWCAP_SHA2; }

#else
#error "edgert runs on little-endian x86_64 and aarch64"
#endif
