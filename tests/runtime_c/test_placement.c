/* Which CPU each worker is kept on, on machines that are folders made here. */
#include <sys/stat.h>
#include <unistd.h>

#include "platform/cpu.h"
#include "session/session.h"
#include "test.h"

enum { CPUS = 6 };

static char folder[] = "/tmp/edgert-placement-XXXXXX";

/* Writes or, for 0, removes what the machine says of a CPU. */
static void say(uint32_t cpu, const char *name, uint32_t value) {
  char path[128];
  snprintf(path, sizeof path, "%s/cpu%u/%s", folder, cpu, name);
  unlink(path);
  if (value == 0) return;
  FILE *stream = fopen(path, "w");
  CHECK(stream != NULL && fprintf(stream, "%u\n", value) > 0 && fclose(stream) == 0);
}

static void say_all(const char *name, const uint32_t *values) {
  for (uint32_t cpu = 0; cpu < CPUS; cpu++) say(cpu, name, values[cpu]);
}

static cpu_set_t set_of(uint32_t mask) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (uint32_t cpu = 0; cpu < 32; cpu++)
    if (mask >> cpu & 1) CPU_SET(cpu, &set);
  return set;
}

/* The CPUs by capacity as decimal digits; "" if they are alike. */
static const char *sorted(uint32_t mask, uint32_t most) {
  static char text[CPUS + 1];
  uint32_t cpus[CPUS];
  cpu_set_t allowed = set_of(mask);
  uint32_t count = ert_cpus_by_capacity(folder, &allowed, most, cpus);
  for (uint32_t i = 0; i < count; i++) text[i] = (char)('0' + cpus[i]);
  text[count] = '\0';
  return text;
}

static const uint32_t none[CPUS], alike[CPUS] = {1024, 1024, 1024, 1024, 1024, 1024};
static const uint32_t tx2[CPUS] = {512, 1024, 1024, 512, 512, 513}; /* fast ones in between */

static void capacities(void) {
  say_all("cpu_capacity", tx2);
  CHECK(strcmp(sorted(0x3f, 6), "125034") == 0);
  CHECK(strcmp(sorted(0x3f, 3), "125") == 0);
  CHECK(strcmp(sorted(0x39, 6), "5034") == 0); /* the fast ones are not allowed */
  CHECK(strcmp(sorted(0x19, 6), "") == 0);     /* all alike */
  CHECK(strcmp(sorted(0x7f, 6), "") == 0);     /* of one nothing is known */
  say_all("cpu_capacity", alike);
  CHECK(strcmp(sorted(0x3f, 6), "") == 0);
  say_all("cpufreq/cpuinfo_max_freq", tx2);
  CHECK(strcmp(sorted(0x3f, 6), "125034") == 0);
  say_all("cpu_capacity", none);
  CHECK(strcmp(sorted(0x3f, 2), "12") == 0);
  say_all("cpufreq/cpuinfo_max_freq", none);
  CHECK(strcmp(sorted(0x3f, 6), "") == 0);
  uint32_t cpus[CPUS];
  CHECK(ert_cpus_by_capacity(folder, NULL, CPUS, cpus) == 0); /* those of this thread: nothing is known of them */
}

/* The CPU of each worker of cores.edge's program for 3 cores, whose speeds are 1, 0.75 and 0.5; "" if nothing is pinned. */
static const char *placed(const edgert_bundle *bundle, uint32_t cores, uint32_t workers, uint32_t mask) {
  static char text[CPUS + 1];
  uint32_t cpus[ERT_MOST_CORES], count = 0;
  cpu_set_t allowed = set_of(mask);
  ert_table program;
  edgert_session_options options = {.struct_size = sizeof options, .threads = cores};
  CHECK(ert_program_choose(bundle, &options, &program) == EDGERT_OK);
  if (ert_workers_place(program, workers, folder, &allowed, cpus))
    for (; count < workers; count++) text[count] = (char)('0' + cpus[count]);
  text[count] = '\0';
  return text;
}

static edgert_bundle *bundle;

static void workers(void) {
  const uint32_t rising[CPUS] = {100, 200, 300, 400, 500, 600};
  say_all("cpu_capacity", rising);
  CHECK(strcmp(placed(bundle, 3, 3, 0x3f), "543") == 0);
  CHECK(strcmp(placed(bundle, 3, 2, 0x3f), "54") == 0);
  CHECK(strcmp(placed(bundle, 3, 3, 0x07), "210") == 0);
  CHECK(strcmp(placed(bundle, 3, 3, 0x03), "") == 0); /* too few */
  CHECK(strcmp(placed(bundle, 2, 2, 0x3f), "") == 0); /* cores alike */
  CHECK(strcmp(placed(bundle, 1, 1, 0x3f), "") == 0);
  say_all("cpu_capacity", alike);
  CHECK(strcmp(placed(bundle, 3, 3, 0x3f), "") == 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  CHECK(edgert_bundle_open(golden_path(arguments, "cores.edge"), NULL, &bundle) == EDGERT_OK);
  CHECK(mkdtemp(folder) != NULL);
  char path[128];
  for (int cpu = 0; cpu < CPUS; cpu++) {
    for (int deeper = 0; deeper < 2; deeper++) {
      snprintf(path, sizeof path, "%s/cpu%d%s", folder, cpu, deeper ? "/cpufreq" : "");
      CHECK(mkdir(path, 0777) == 0);
    }
  }
  RUN(capacities);
  RUN(workers);
  say_all("cpu_capacity", none);
  for (int cpu = 0; cpu < CPUS; cpu++) {
    for (int deeper = 1; deeper >= 0; deeper--) {
      snprintf(path, sizeof path, "%s/cpu%d%s", folder, cpu, deeper ? "/cpufreq" : "");
      CHECK(rmdir(path) == 0);
    }
  }
  CHECK(rmdir(folder) == 0);
  edgert_bundle_close(bundle);
  return 0;
}
