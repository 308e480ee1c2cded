/* The verbs: each does its work and returns the exit code. */
#ifndef EDGERT_TOOLS_VERBS_H
#define EDGERT_TOOLS_VERBS_H

#include "arguments.h"

int verb_info(const arguments *a);
int verb_run(const arguments *a);
int verb_bench(const arguments *a);
int verb_selftest(const arguments *a);

#endif
