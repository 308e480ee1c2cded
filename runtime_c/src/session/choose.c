/* Which program of a bundle a session runs. */
#include <inttypes.h>
#include <string.h>

#include "platform/cpu.h"
#include "session/session.h"

/* Adds to a list; what does not fit is cut off. */
static void add(ert_text *list, const char *separator, const char *item) {
  *list = ert_format("%s%s%s", list->s, *list->s ? separator : "", item);
}

static const char *target_at(ert_vector programs, uint32_t i) {
  return ert_string(ert_item(programs, i), ERT_FIELD_PROGRAM_TARGET);
}

/* Whether an earlier program has the same target, for fewer cores say. */
static bool is_repeated(ert_vector programs, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(target_at(programs, k), target_at(programs, i)) == 0) return true;
  return false;
}

/* What a program that cannot run would need. */
static ert_text need(const edgert_bundle *bundle, ert_table program, const edgert_session_options *options) {
  const char *device = ert_string(program, ERT_FIELD_PROGRAM_DEVICE);
  switch (ert_program_runnable(bundle, program, options)) {
    case EDGERT_ERROR_NO_PROGRAM:
      return ert_format("%.40s", ert_string(program, ERT_FIELD_PROGRAM_ARCH));
    case EDGERT_ERROR_NATIVE_CODE:
      return ert_format("--allow-native for code of %.20s", device);
    case EDGERT_ERROR_UNKNOWN_KERNEL:
      return ert_format("a kernel that this library does not have");
    default:
      return ert_format("a device %.20s with its driver", device);
  }
}

/* Asks again about a program that could not run, for its message; a device may have come back meanwhile. */
static edgert_status retry(const edgert_bundle *bundle, ert_table program, const edgert_session_options *options,
                           ert_table *out) {
  *out = program;
  return ert_program_runnable(bundle, program, options);
}

/* No program can run: why not, target by target. */
static edgert_status explain(const edgert_bundle *bundle, ert_vector programs, const edgert_session_options *options,
                             ert_table *out) {
  if (programs.count == 1) return retry(bundle, ert_item(programs, 0), options, out);
  ert_text reasons = {""};
  for (uint32_t i = 0; i < programs.count && i < 16; i++) {
    if (is_repeated(programs, i)) continue;
    add(&reasons, "; ",
        ert_format("'%.40s' needs %.60s", target_at(programs, i), need(bundle, ert_item(programs, i), options).s).s);
  }
  return ert_fail(EDGERT_ERROR_NO_PROGRAM, reasons.s, ert_format("a program for %s", ert_cpu_arch).s, "none");
}

static edgert_status no_such_target(ert_vector programs, const char *target) {
  ert_text known = {""};
  for (uint32_t i = 0; i < programs.count && i < 16; i++)
    if (!is_repeated(programs, i)) add(&known, ", ", target_at(programs, i));
  return ert_fail(EDGERT_ERROR_NO_PROGRAM, "target", programs.count ? known.s : "none: the bundle has no program",
                  ert_format("'%.80s'", target).s);
}

/* The first target with a program that can run here; NULL if there is none. */
static const char *first_target(const edgert_bundle *bundle, ert_vector programs,
                                const edgert_session_options *options) {
  for (uint32_t i = 0; i < programs.count; i++)
    if (ert_program_runnable(bundle, ert_item(programs, i), options) == EDGERT_OK) return target_at(programs, i);
  return NULL;
}

/* Whether a program for `cores` serves `threads` threads better than one for `best`; 0: there is none yet. */
static bool better(uint32_t cores, uint32_t best, uint32_t threads) {
  if (best == 0) return true;
  if ((cores <= threads) != (best <= threads)) return cores <= threads;
  return cores <= threads ? cores > best : cores < best;
}

edgert_status ert_program_choose(const edgert_bundle *bundle, const edgert_session_options *options, ert_table *out) {
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS);
  const char *wanted = options->target ? options->target : first_target(bundle, programs, options);
  if (!wanted) return explain(bundle, programs, options, out);
  uint32_t best = 0;
  ert_table refused = NULL;
  for (uint32_t i = 0; i < programs.count; i++) {
    ert_table program = ert_item(programs, i);
    if (strcmp(target_at(programs, i), wanted) != 0) continue;
    if (ert_program_runnable(bundle, program, options) != EDGERT_OK) {
      if (!refused) refused = program;
      continue;
    }
    uint32_t cores = ert_u32(program, ERT_FIELD_PROGRAM_CORES, 1);
    if (!better(cores, best, options->threads)) continue;
    best = cores;
    *out = program;
  }
  if (best > 0) return EDGERT_OK;
  return refused ? retry(bundle, refused, options, out) : no_such_target(programs, wanted);
}
