/* How many cores the cgroups leave to a process, on machines that are folders made here. */
#include <sys/stat.h>
#include <unistd.h>

#include "platform/cpu.h"
#include "test.h"

static char root[] = "/tmp/edgert-cgroups-XXXXXX";

static const char *const folders[] = {
    "/proc",
    "/proc/self",
    "/sys",
    "/sys/fs",
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/slice",
    "/sys/fs/cgroup/slice/unit",
    "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/cpu/pods",
    "/sys/fs/cgroup/cpu/pods/one",
};
enum { FOLDERS = sizeof folders / sizeof folders[0] };

static const char *const files[] = {
    "/proc/self/cgroup",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/slice/cpu.max",
    "/sys/fs/cgroup/slice/unit/cpu.max",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
    "/sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us",
    "/sys/fs/cgroup/cpu/pods/cpu.cfs_period_us",
    "/sys/fs/cgroup/cpu/pods/one/cpu.cfs_quota_us",
    "/sys/fs/cgroup/cpu/pods/one/cpu.cfs_period_us",
};
enum {
  FILES = sizeof files / sizeof files[0],
  GROUPS = 0,
  V2_ROOT,
  V2_SLICE,
  V2_UNIT,
  V1_ROOT,
  V1_PODS = 6,
  V1_ONE = 8
};

static char path[256];

static const char *below_root(const char *name) {
  snprintf(path, sizeof path, "%s%s", root, name);
  return path;
}

static void clear(void) {
  for (int i = 0; i < FILES; i++) unlink(below_root(files[i]));
}

static void say(int which, const char *contents) {
  FILE *stream = fopen(below_root(files[which]), "w");
  CHECK(stream != NULL && fputs(contents, stream) >= 0 && fclose(stream) == 0);
}

static void say_v1(int which, const char *quota, const char *period) {
  say(which, quota);
  say(which + 1, period);
}

static uint32_t cores(uint32_t of) { return ert_cgroup_cores(root, of); }

static void unlimited(void) {
  clear();
  CHECK(cores(8) == 8); /* nothing is known */
  say(GROUPS, "0::/slice/unit\n");
  CHECK(cores(8) == 8); /* no controller */
  say(V2_UNIT, "max 100000\n");
  say(V2_SLICE, "");
  CHECK(cores(8) == 8 && cores(1) == 1);
}

static void version_2(void) {
  clear();
  say(GROUPS, "0::/slice/unit\n");
  say(V2_UNIT, "200000 100000\n");
  CHECK(cores(8) == 2 && cores(1) == 1);
  say(V2_UNIT, "150000 100000\n"); /* part of a core is one */
  CHECK(cores(8) == 2);
  say(V2_UNIT, "1000 100000\n");
  CHECK(cores(8) == 1);
  say(V2_UNIT, "max 100000\n");
  say(V2_SLICE, "300000 100000\n"); /* the group above */
  CHECK(cores(8) == 3);
  say(V2_ROOT, "50000 50000\n"); /* and the one above that, which is a container's own if it sees no others */
  CHECK(cores(8) == 1);
  clear();
  say(GROUPS, "0::/elsewhere/deeper\n");
  say(V2_ROOT, "400000 100000\n");
  CHECK(cores(8) == 4);
}

static void version_1(void) {
  clear();
  say(GROUPS, "7:memory:/slice\n4:cpu,cpuacct:/pods/one\n3:cpuset:/x\n0::/\n");
  say_v1(V1_ONE, "-1\n", "100000\n");
  CHECK(cores(8) == 8);
  say_v1(V1_PODS, "250000\n", "100000\n");
  CHECK(cores(8) == 3);
  say_v1(V1_ONE, "200000\n", "100000\n");
  CHECK(cores(8) == 2);
  say_v1(V1_ROOT, "100000\n", "100000\n");
  CHECK(cores(8) == 1);
  say(GROUPS, "4:cpuacct:/pods/one\n3:cpuset:/pods/one\n"); /* other controllers do not limit */
  CHECK(cores(8) == 8);
  say(GROUPS, "broken\n4:cpu\n:::\n4:cpuacct,cpu:/pods");
  CHECK(cores(8) == 1);
}

/* As many and as long lines as orchestrators make. */
static void long_names(void) {
  char text[4096] = "";
  clear();
  for (int i = 12; i > 1; i--) {
    size_t end = strlen(text);
    snprintf(text + end, sizeof text - end, "%d:controller-%d:/kubepods/burstable/pod%0150d\n", i, i, i);
  }
  strcat(text, "1:cpu:/pods/one\n");
  CHECK(strlen(text) > 2000);
  say(GROUPS, text);
  say_v1(V1_ONE, "200000\n", "100000\n");
  CHECK(cores(8) == 2);
}

int main(void) {
  CHECK(mkdtemp(root) != NULL);
  for (int i = 0; i < FOLDERS; i++) CHECK(mkdir(below_root(folders[i]), 0777) == 0);
  RUN(unlimited);
  RUN(version_2);
  RUN(version_1);
  RUN(long_names);
  clear();
  for (int i = FOLDERS; i-- > 0;) CHECK(rmdir(below_root(folders[i])) == 0);
  CHECK(rmdir(root) == 0);
  return 0;
}
