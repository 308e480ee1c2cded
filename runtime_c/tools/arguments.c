/* What the command line says: one table of all options. */
#include "arguments.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef enum kind { FLAG, COUNT, REAL, TEXT, LIST } kind;

typedef struct option {
  const char *name, *brief; /* "--output", "-o" or "" */
  kind kind;
  unsigned verbs;
  size_t offset; /* of its value in `arguments` */
  const char *value, *help;
} option;

#define OPTION(name, brief, kind, verbs, field, value, help) \
  {name, brief, kind, verbs, offsetof(arguments, field), value, help}

enum { RUNNING = VERB_RUN | VERB_BENCH | VERB_SELFTEST, TIMING = VERB_BENCH | VERB_SELFTEST };

static const option options[] = {
    OPTION("--input", "-i", LIST, VERB_RUN | VERB_BENCH, inputs, "NAME=FILE",
           "values: .npy, else raw bytes; repeatable"),
    OPTION("--output", "-o", TEXT, VERB_RUN, output, "FOLDER", "save every output there as .npy"),
    OPTION("--target", "", TEXT, RUNNING, target, "NAME", "program to use; default: the first that can run here"),
    OPTION("--threads", "", COUNT, RUNNING, threads, "N",
           "at most, and the program for as many cores; default: the usable cores"),
    OPTION("--isa", "", TEXT, VERB_RUN | VERB_BENCH, isa, "NAME", "scalar, avx2, neon, ...; default: the best"),
    OPTION("--isa", "", LIST, VERB_SELFTEST, isas, "NAME", "one to test, or all; repeatable; the first one is timed"),
    OPTION("--allow-native", "", FLAG, VERB_INFO | RUNNING, allow_native, "",
           "run the bundle's own code on a device; trust who packed it"),
    OPTION("--emulate", "", FLAG, RUNNING, emulate, "", "run a program for a device on an emulator of it"),
    OPTION("--cuda-library", "", TEXT, VERB_INFO | RUNNING, cuda_library, "FILE",
           "the CUDA driver; default: EDGERT_CUDA_LIBRARY, else libcuda.so.1"),
    OPTION("--code-cache", "", TEXT, RUNNING, code_cache, "FOLDER", "keeps what a driver translates; '': nothing does"),
    OPTION("--integrity", "", TEXT, VERB_BENCH, integrity, "WHAT", "full: hash everything; metadata: not the weights"),
    OPTION("--warmup", "", COUNT, VERB_BENCH, warmup, "N", "runs before the counted ones; default: 5"),
    OPTION("--runs", "", COUNT, TIMING, runs, "N", "counted runs; default: as many as fit in --duration"),
    OPTION("--duration", "", REAL, TIMING, duration, "SECONDS", "of the counted runs"),
    OPTION("--deadline-ms", "", REAL, VERB_SELFTEST, deadline_ms, "MS", "fail if p99 takes longer"),
    OPTION("--json", "", FLAG, TIMING, json, "", "print JSON instead of text"),
    OPTION("--help", "-h", FLAG, VERB_INFO | RUNNING, help, "", "print this"),
};

enum { OPTIONS = sizeof options / sizeof options[0] };

/* The option that a word begins, its value behind an equals sign or not. */
static const option *find(unsigned verb, const char *word, const char **value) {
  const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  *value = equals ? equals + 1 : NULL;
  for (const option *o = options; o < options + OPTIONS; o++) {
    bool named = strlen(o->name) == length && strncmp(o->name, word, length) == 0;
    if ((o->verbs & verb) && (named || strcmp(o->brief, word) == 0)) return o;
  }
  return NULL;
}

static bool read_count(const option *o, const char *value, uint32_t *out) {
  char *end;
  unsigned long long number = strtoull(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || number > INT32_MAX)
    return fail("%s\nexpected a number from 0 to %d, got '%s'", o->name, INT32_MAX, value);
  *out = (uint32_t)number;
  return true;
}

static bool read_real(const option *o, const char *value, double *out) {
  char *end;
  *out = strtod(value, &end);
  if (end == value || *end || !isfinite(*out) || *out < 0)
    return fail("%s\nexpected a number that is not negative, got '%s'", o->name, value);
  return true;
}

static bool store(const option *o, const char *value, arguments *out) {
  char *place = (char *)out + o->offset;
  switch (o->kind) {
    case FLAG:
      *(bool *)(void *)place = true;
      return true;
    case COUNT:
      return read_count(o, value, (uint32_t *)(void *)place);
    case REAL:
      return read_real(o, value, (double *)(void *)place);
    case TEXT:
      *(const char **)(void *)place = value;
      return true;
    case LIST: {
      list *values = (list *)(void *)place;
      values->items[values->count++] = value;
      return true;
    }
  }
  return false;
}

bool arguments_read(unsigned verb, int count, char **words, arguments *out) {
  out->inputs.items = allocate((uint64_t)count, sizeof(char *));
  out->isas.items = allocate((uint64_t)count, sizeof(char *));
  if (!out->inputs.items || !out->isas.items) return false;
  for (int i = 0; i < count; i++) {
    if (words[i][0] != '-' || words[i][1] == '\0') {
      if (out->bundle) return fail("expected one bundle, got '%s' and '%s'", out->bundle, words[i]);
      out->bundle = words[i];
      continue;
    }
    const char *value;
    const option *o = find(verb, words[i], &value);
    if (!o) return fail("unknown option '%s'\nSee the verb's options with --help.", words[i]);
    if (o->kind == FLAG && value) return fail("%s\nexpected no value, got '%s'", o->name, value);
    if (o->kind != FLAG && !value) {
      if (i + 1 == count) return fail("%s\nexpected a value: %s %s", o->name, o->name, o->value);
      value = words[++i];
    }
    if (!store(o, value, out)) return false;
  }
  return out->bundle || out->help || fail("expected a bundle, such as model.edge\nSee the verb's options with --help.");
}

void arguments_free(arguments *a) {
  free((void *)a->inputs.items);
  free((void *)a->isas.items);
}

void arguments_help(unsigned verb) {
  for (const option *o = options; o < options + OPTIONS; o++) {
    if (!(o->verbs & verb)) continue;
    char names[64];
    snprintf(names, sizeof names, "%s%s%s %s", o->brief, *o->brief ? ", " : "", o->name, o->value);
    printf("  %-24s  %s\n", names, o->help);
  }
}
