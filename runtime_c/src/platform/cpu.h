/* What this machine's processor offers, and how much of it this process may use. */
#ifndef ERT_PLATFORM_CPU_H
#define ERT_PLATFORM_CPU_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* The architecture that this library was built for, as programs name it: "x86_64" or "aarch64". */
extern const char ert_cpu_arch[];

/* SHA-256 instructions: SHA-NI with SSE4.1, or the ARMv8 cryptography extension. */
bool ert_cpu_has_sha256(void);

/* CPUs that the calling thread may run on. At least 1. */
uint32_t ert_cpu_allowed(void);

/* Cores that this process may use: the affinity mask, limited by the cgroup's share of processor time. At least 1. */
uint32_t ert_cpu_cores(void);

/* Of `cores`, at least 1, those that the quotas of the process's cgroup and of all groups above it leave, versions 1 and 2;
 * a part of a core counts as one. Read below `root`, "" for this machine's. */
uint32_t ert_cgroup_cores(const char *root, uint32_t cores);

/* The CPUs of `allowed` (NULL: those that the calling thread may use) by their capacity, highest first, at most `most`;
 * returns how many. 0 if all are alike, or if their capacity is not known. Below `folder`, /sys/devices/system/cpu, it
 * is what cpu<N>/cpu_capacity says of all of them, or cpu<N>/cpufreq/cpuinfo_max_freq. */
uint32_t ert_cpus_by_capacity(const char *folder, const cpu_set_t *allowed, uint32_t most, uint32_t *cpus);

#endif
