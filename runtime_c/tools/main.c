/* edgert-native: the command line of devices without Python. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "verbs.h"

typedef struct verb {
  const char *name, *summary;
  unsigned bit;
  int (*run)(const arguments *a);
  double duration; /* what --duration is unless given */
} verb;

static const verb verbs[] = {
    {"info", "show programs, inputs and outputs, and whether they can run here", VERB_INFO, verb_info, 0},
    {"run", "run once; print each output's range and the top classes", VERB_RUN, verb_run, 0},
    {"bench", "measure latency percentiles, time to open, first run, peak memory", VERB_BENCH, verb_bench, 2},
    {"selftest", "integrity, golden outputs and latency: PASS (exit code 0) or FAIL (1)", VERB_SELFTEST, verb_selftest,
     1},
};

enum { VERBS = sizeof verbs / sizeof verbs[0] };

static void print_help(void) {
  printf("edgert-native %s: runs bundles that edgert has packed.\n\nusage: edgert-native VERB BUNDLE [options]\n\n",
         edgert_version());
  for (const verb *v = verbs; v < verbs + VERBS; v++) printf("  %-9s %s\n", v->name, v->summary);
  printf("\nedgert-native VERB --help has the options. Exit code 2: an error.\n");
}

static int run(const verb *v, int count, char **words) {
  arguments a = {.integrity = "full", .warmup = 5, .duration = v->duration, .deadline_ms = INFINITY};
  int code = EXIT_ERROR;
  if (arguments_read(v->bit, count, words, &a)) {
    if (a.help) {
      printf("usage: edgert-native %s BUNDLE [options]\n%s\n\n", v->name, v->summary);
      arguments_help(v->bit);
      code = EXIT_PASSED;
    } else {
      code = v->run(&a);
    }
  }
  arguments_free(&a);
  return code;
}

static int dispatch(int count, char **words) {
  if (count < 2 || strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0) {
    print_help();
    return count < 2 ? EXIT_ERROR : EXIT_PASSED;
  }
  if (strcmp(words[1], "--version") == 0) {
    printf("edgert-native %s\n", edgert_version());
    return EXIT_PASSED;
  }
  for (const verb *v = verbs; v < verbs + VERBS; v++)
    if (strcmp(words[1], v->name) == 0) return run(v, count - 2, words + 2);
  fail("unknown verb '%s'\nexpected info, run, bench or selftest", words[1]);
  return EXIT_ERROR;
}

int main(int count, char **words) {
  int code = dispatch(count, words);
  if ((fflush(stdout) != 0 || ferror(stdout)) && code != EXIT_ERROR) {
    fail("the output could not be written");
    code = EXIT_ERROR;
  }
  return code;
}
