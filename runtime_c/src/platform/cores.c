/* The cores that this process may use: how many, by the affinity mask and the cgroup's share of processor time, and which
 * of them are the fastest. */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/cpu.h"

/* Long enough for the groups of a process in a container, a line for each of a dozen controllers. */
typedef struct text {
  char s[4096];
} text;

/* The beginning of the file at folder + group + name; "" if it cannot be read. */
static text read_file(const char *folder, const char *group, const char *name) {
  text path, found = {""};
  int length = snprintf(path.s, sizeof path.s, "%s%s/%s", folder, group, name);
  if (length < 0 || (size_t)length >= sizeof path.s) return found;
  int descriptor = open(path.s, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return found;
  ssize_t n = read(descriptor, found.s, sizeof found.s - 1);
  found.s[n > 0 ? n : 0] = '\0';
  close(descriptor);
  return found;
}

/* A part of a core counts as one, so that none is left unused. */
static uint32_t whole_cores(long long quota, long long period, uint32_t cores) {
  if (quota <= 0 || period <= 0) return cores;
  long long share = quota / period + (quota % period != 0);
  return share < (long long)cores ? (uint32_t)share : cores;
}

static uint32_t limit_v2(const char *folder, const char *group, uint32_t cores) {
  char *end;
  text limit = read_file(folder, group, "cpu.max"); /* "max 100000" or "150000 100000" */
  long long quota = strtoll(limit.s, &end, 10);
  return end == limit.s ? cores : whole_cores(quota, strtoll(end, NULL, 10), cores);
}

static uint32_t limit_v1(const char *folder, const char *group, uint32_t cores) {
  long long quota = strtoll(read_file(folder, group, "cpu.cfs_quota_us").s, NULL, 10); /* -1: none */
  return whole_cores(quota, strtoll(read_file(folder, group, "cpu.cfs_period_us").s, NULL, 10), cores);
}

/* Applies the limits of a group and of all those above it. `group` is shortened on the way. */
static uint32_t limit_upwards(uint32_t (*limit)(const char *, const char *, uint32_t), const char *folder, char *group,
                              uint32_t cores) {
  for (;;) {
    cores = limit(folder, group, cores);
    char *slash = strrchr(group, '/');
    if (!slash) return cores;
    *slash = '\0';
  }
}

/* Whether the comma-separated list has the controller "cpu". */
static bool has_cpu(const char *list) {
  for (;;) {
    size_t length = strcspn(list, ",");
    if (length == 3 && memcmp(list, "cpu", 3) == 0) return true;
    if (list[length] == '\0') return false;
    list += length + 1;
  }
}

uint32_t ert_cgroup_cores(const char *root, uint32_t cores) {
  text groups = read_file(root, "/proc/self", "cgroup"), v1, v2; /* lines of "0::/group" or "4:cpu,cpuacct:/group" */
  snprintf(v1.s, sizeof v1.s, "%s/sys/fs/cgroup/cpu", root);
  snprintf(v2.s, sizeof v2.s, "%s/sys/fs/cgroup", root);
  char *next = groups.s;
  while (*next) {
    char *line = next;
    next += strcspn(next, "\n");
    if (*next) *next++ = '\0';
    char *list = strchr(line, ':');
    char *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    list++;
    if (*list == '\0') cores = limit_upwards(limit_v2, v2.s, group, cores);
    if (has_cpu(list)) cores = limit_upwards(limit_v1, v1.s, group, cores);
  }
  return cores;
}

uint32_t ert_cpu_allowed(void) {
  cpu_set_t set;
  long cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? (uint32_t)cores : 1;
}

uint32_t ert_cpu_cores(void) { return ert_cgroup_cores("", ert_cpu_allowed()); }

/* What a file says of a CPU's speed; 0 if there is none. */
static uint64_t capacity(const char *folder, uint32_t cpu, const char *file) {
  char own[16];
  snprintf(own, sizeof own, "/cpu%" PRIu32, cpu);
  return strtoull(read_file(folder, own, file).s, NULL, 10);
}

/* Sorts the CPUs by what `file` says of each; 0 if it says nothing of one, or the same of all. */
static uint32_t sort_by(const char *file, const char *folder, const cpu_set_t *allowed, uint32_t most, uint32_t *cpus) {
  uint64_t found[CPU_SETSIZE], least = UINT64_MAX, best = 0;
  uint32_t count = 0;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, allowed)) continue;
    found[cpu] = capacity(folder, cpu, file);
    least = found[cpu] < least ? found[cpu] : least;
    best = found[cpu] > best ? found[cpu] : best;
    uint32_t at = count;
    while (at > 0 && found[cpus[at - 1]] < found[cpu]) at--;
    if (at == most) continue;
    if (count < most) count++;
    memmove(cpus + at + 1, cpus + at, (count - at - 1) * sizeof *cpus);
    cpus[at] = cpu;
  }
  return least == 0 || least == best ? 0 : count;
}

uint32_t ert_cpus_by_capacity(const char *folder, const cpu_set_t *allowed, uint32_t most, uint32_t *cpus) {
  cpu_set_t own;
  if (!allowed && sched_getaffinity(0, sizeof own, &own) != 0) return 0;
  if (!allowed) allowed = &own;
  uint32_t count = sort_by("cpu_capacity", folder, allowed, most, cpus);
  return count > 0 ? count : sort_by("cpufreq/cpuinfo_max_freq", folder, allowed, most, cpus);
}
