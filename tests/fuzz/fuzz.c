/* Opens and runs endless mutants of good bundles; a process that dies of one is reported, and the next takes over.
 *
 *   fuzz FOLDER SECONDS [SEED]        for so long, over every *.edge in the folder
 *   fuzz FOLDER only SEED NUMBER      one mutant, in this process: what a report says to repeat
 *
 * Exits with 1 if any mutant crashed, was reported by a sanitizer, leaked, or took too long. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"
#include "guarded.h"
#include "platform/clock.h"

enum {
  MOST_SEEDS = 4096,
  WORK_BYTES = 1 << 23,
  KERNELS = 128,
  MUTANTS_PER_PROCESS = 5000,
  OPEN_SECONDS = 1,
  RUN_SECONDS = 4
};

static edgert_bundle *seeds[MOST_SEEDS];
static char *names[MOST_SEEDS];
static uint32_t n_seeds;

/* The mutant that took longest. */
typedef struct slow {
  uint64_t ns, number;
} slow;

/* What the processes tell each other. */
static struct shared {
  uint64_t number; /* of the mutant being tried */
  uint64_t opened, ran, sessions, emulated, large;
  slow slowest_open, slowest_run;
  struct {
    char name[32];
    uint64_t runs;
  } kernels[KERNELS];
} *shared;

const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=1:detect_stack_use_after_return=0";
}

static void count_kernel(const char *kernel) {
  for (int i = 0; i < KERNELS; i++) {
    if (!shared->kernels[i].name[0]) snprintf(shared->kernels[i].name, sizeof shared->kernels[i].name, "%s", kernel);
    if (strcmp(shared->kernels[i].name, kernel) != 0) continue;
    shared->kernels[i].runs++;
    return;
  }
}

static bool has_device(const edgert_bundle *bundle) {
  edgert_program_info info;
  for (uint32_t i = 0; i < edgert_bundle_program_count(bundle); i++)
    if (edgert_bundle_program(bundle, i, &info) == EDGERT_OK && *info.device) return true;
  return false;
}

static mutant copy_of(const edgert_bundle *bundle) {
  void *memory;
  if (posix_memalign(&memory, 64, bundle->bytes) != 0) return (mutant){NULL, 0};
  return (mutant){memcpy(memory, bundle->data, bundle->bytes), bundle->bytes};
}

/* The mutant of this number: always the same one for the same seed and folder. The first ones are the bundles as they are. */
static void try_mutant(uint64_t seed, uint64_t number, pool *work) {
  dice d = {seed * 0x100000001b3u + number};
  (void)roll(&d);
  const edgert_bundle *good = seeds[number % n_seeds], *donor = seeds[below(&d, n_seeds)];
  mutant m = number < n_seeds ? copy_of(good) : mutate(good, donor, &d, work);
  if (!m.data) return;
  edgert_open_options options = {.struct_size = sizeof options,
                                 .integrity = below(&d, 32) ? EDGERT_INTEGRITY_METADATA : EDGERT_INTEGRITY_FULL,
                                 .threads = 1};
  edgert_bundle *bundle;
  struct itimerval limit = {.it_value.tv_sec = OPEN_SECONDS};
  setitimer(ITIMER_PROF, &limit, NULL);
  uint64_t begin = ert_clock_ns();
  edgert_status status = edgert_bundle_open_memory(m.data, m.bytes, &options, &bundle);
  uint64_t opened = ert_clock_ns();
  if (opened - begin > shared->slowest_open.ns) shared->slowest_open = (slow){opened - begin, number};
  limit.it_value.tv_sec = RUN_SECONDS;
  setitimer(ITIMER_PROF, &limit, NULL);
  if (status == EDGERT_OK) {
    shared->opened++;
    uint32_t sets = 0;
    while (edgert_isa(sets)) sets++;
    const char *isa = edgert_isa((uint32_t)below(&d, sets));
    outcome found = run_guarded(bundle, isa, below(&d, 2) ? 1 : 3, &d, count_kernel);
    shared->ran += found == OUTCOME_RAN;
    shared->large += found == OUTCOME_LARGE;
    if (found == OUTCOME_RAN && below(&d, 8) == 0)
      shared->sessions += run_session(bundle, isa, below(&d, 2) ? 1 : 3, NULL, &d, count_kernel) == OUTCOME_RAN;
    if (has_device(bundle)) shared->emulated += run_session(bundle, isa, 1, EMULATOR, &d, count_kernel) == OUTCOME_RAN;
  }
  edgert_bundle_close(bundle);
  free(m.data);
  uint64_t ended = ert_clock_ns();
  if (ended - opened > shared->slowest_run.ns) shared->slowest_run = (slow){ended - opened, number};
}

static void load_seeds(const char *folder) {
  struct dirent **entries;
  int count = scandir(folder, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name, *end = strrchr(name, '.');
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (end && strcmp(end, ".edge") == 0 && n_seeds < MOST_SEEDS) {
      names[n_seeds] = strdup(name);
      if (edgert_bundle_open(path, NULL, &seeds[n_seeds]) == EDGERT_OK) n_seeds++;
    }
    free(entries[i]);
  }
  if (count >= 0) free(entries);
}

/* Tries mutants from shared->number on, in a process of its own; how that ended. */
static int try_many(uint64_t seed, uint64_t until_ns, pool *work) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) exit(2);
  if (child == 0) {
    for (uint64_t n = 0; n < MUTANTS_PER_PROCESS && ert_clock_ns() < until_ns; n++) {
      try_mutant(seed, shared->number, work);
      shared->number++;
    }
    exit(0); /* where leaks are looked for */
  }
  int ended = 0;
  while (waitpid(child, &ended, 0) != child) continue;
  return ended;
}

static int fuzz(uint64_t seconds, uint64_t seed, pool *work) {
  uint64_t failures = 0, begin = ert_clock_ns(), until = begin + seconds * 1000000000u;
  while (ert_clock_ns() < until) {
    int ended = try_many(seed, until, work);
    if (ended == 0) continue;
    failures++;
    const char *why = WIFSIGNALED(ended) && WTERMSIG(ended) == SIGPROF ? "takes too long" : "crashes or leaks";
    printf("FOUND: %s: mutant of %s; repeat with: only %llu %llu\n", why, names[shared->number % n_seeds],
           (unsigned long long)seed, (unsigned long long)shared->number);
    shared->number++;
  }
  for (int i = 0; i < KERNELS && shared->kernels[i].name[0]; i++)
    printf("%-20s %10llu runs\n", shared->kernels[i].name, (unsigned long long)shared->kernels[i].runs);
  printf(
      "%u seeds: %llu mutants, %llu opened, %llu ran, %llu of them in sessions too, %llu on the emulator, "
      "%llu too large to run; %llu failures\n",
      n_seeds, (unsigned long long)shared->number, (unsigned long long)shared->opened, (unsigned long long)shared->ran,
      (unsigned long long)shared->sessions, (unsigned long long)shared->emulated, (unsigned long long)shared->large,
      (unsigned long long)failures);
  printf("slowest to open: %.1f ms, mutant %llu; to run: %.1f ms, mutant %llu\n", (double)shared->slowest_open.ns / 1e6,
         (unsigned long long)shared->slowest_open.number, (double)shared->slowest_run.ns / 1e6,
         (unsigned long long)shared->slowest_run.number);
  return failures > 0;
}

int main(int count, char **arguments) {
  setenv("EDGERT_EMULATOR_THREADS", "1", 0);
  setenv("EDGERT_EMULATOR_LIMIT", "20000", 0);
  setenv("EDGERT_EMULATOR_MEMORY", "67108864", 0);
  pool work = {.data = malloc(WORK_BYTES), .size = WORK_BYTES};
  if (count >= 3) load_seeds(arguments[1]);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (n_seeds == 0 || !work.data || shared == MAP_FAILED) {
    fprintf(stderr, "usage: fuzz FOLDER SECONDS [SEED] | fuzz FOLDER only SEED NUMBER (FOLDER holds *.edge files)\n");
    return 2;
  }
  int status = 0;
  if (strcmp(arguments[2], "only") == 0 && count == 5) {
    try_mutant(strtoull(arguments[3], NULL, 0), strtoull(arguments[4], NULL, 0), &work);
  } else {
    status = fuzz(strtoull(arguments[2], NULL, 0), count > 3 ? strtoull(arguments[3], NULL, 0) : 1, &work);
  }
  for (uint32_t i = 0; i < n_seeds; i++) edgert_bundle_close(seeds[i]);
  for (uint32_t i = 0; i < n_seeds; i++) free(names[i]);
  free(work.data);
  return status;
}
