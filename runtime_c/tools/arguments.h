/* What the command line says. */
#ifndef EDGERT_TOOLS_ARGUMENTS_H
#define EDGERT_TOOLS_ARGUMENTS_H

#include <stdbool.h>

#include "edgert/edgert.h"

/* The verbs as bits: which options belong to which. */
enum { VERB_INFO = 1, VERB_RUN = 2, VERB_BENCH = 4, VERB_SELFTEST = 8 };

/* The values of an option that may be repeated, in their order. */
typedef struct list {
  const char **items;
  uint32_t count;
} list;

typedef struct arguments {
  const char *bundle;
  const char *target;                    /* NULL: the first that can run here */
  const char *isa;                       /* NULL: the best here */
  const char *output;                    /* folder, or NULL */
  const char *integrity;                 /* "full" or "metadata": what is hashed on opening */
  const char *cuda_library, *code_cache; /* or NULL */
  list inputs, isas;
  uint32_t threads, warmup, runs;
  double duration;    /* seconds */
  double deadline_ms; /* infinite if none */
  bool json, allow_native, emulate;
  bool help;
} arguments;

/* Reads the words behind the verb over the defaults in *out; free with arguments_free, whatever the outcome. False with
 * an error printed if a word is unknown, its value is missing or cannot be one, or there is no bundle. */
bool arguments_read(unsigned verb, int count, char **words, arguments *out);
void arguments_free(arguments *a);

/* Prints what the options of a verb mean. */
void arguments_help(unsigned verb);

#endif
