/* Which program of a bundle a session runs. */
#include <inttypes.h>
#include <string.h>

#include "platform/cpu.h"
#include "session/session.h"

#define NONE UINT32_MAX /* no program */

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
static ert_text need(const edgert_bundle *bundle, ert_vector programs, uint32_t i,
                     const edgert_session_options *options) {
  ert_table program = ert_item(programs, i);
  const char *device = ert_string(program, ERT_FIELD_PROGRAM_DEVICE);
  switch (ert_program_runnable(bundle, i, options)) {
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

/* No program can run: why not, target by target. */
static edgert_status explain(const edgert_bundle *bundle, ert_vector programs, const edgert_session_options *options) {
  ert_text reasons = {""};
  for (uint32_t i = 0; i < programs.count && i < 16; i++) {
    if (is_repeated(programs, i)) continue;
    add(&reasons, "; ",
        ert_format("'%.40s' needs %.60s", target_at(programs, i), need(bundle, programs, i, options).s).s);
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

/* Whether program i serves `threads` threads better than program k. */
static bool better(ert_vector programs, uint32_t i, uint32_t k, uint32_t threads) {
  const uint32_t cores = ert_u32(ert_item(programs, i), ERT_FIELD_PROGRAM_CORES, 1);
  const uint32_t other = ert_u32(ert_item(programs, k), ERT_FIELD_PROGRAM_CORES, 1);
  if (cores == other) return i < k;
  if ((cores <= threads) != (other <= threads)) return cores <= threads;
  return cores <= threads ? cores > other : cores < other;
}

/* The best of a target's programs, or the best behind program `last`. */
static uint32_t best_behind(ert_vector programs, const char *target, uint32_t threads, uint32_t last) {
  uint32_t best = NONE;
  for (uint32_t i = 0; i < programs.count; i++) {
    if (strcmp(target_at(programs, i), target) != 0) continue;
    if (last != NONE && !better(programs, last, i, threads)) continue;
    if (best == NONE || better(programs, i, best, threads)) best = i;
  }
  return best;
}

/* *out: the best of a target's programs that can run here, or NONE; *refused: the best of those before it, or NONE. */
static edgert_status choose(const edgert_bundle *bundle, ert_vector programs, const char *target,
                            const edgert_session_options *options, uint32_t *out, uint32_t *refused) {
  *refused = NONE;
  for (*out = NONE; (*out = best_behind(programs, target, options->threads, *out)) != NONE;) {
    edgert_status status = ert_program_runnable(bundle, *out, options);
    if (status == EDGERT_OK) return EDGERT_OK;
    /* One for this processor that does not hold makes the bundle a bad one: no other takes its place. */
    if (status != EDGERT_ERROR_NO_PROGRAM) ERT_TRY(ert_program_verify(bundle, *out));
    if (*refused == NONE) *refused = *out;
  }
  return EDGERT_OK;
}

edgert_status ert_program_choose(const edgert_bundle *bundle, const edgert_session_options *options, ert_table *out) {
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS);
  const char *wanted = options->target;
  uint32_t found = NONE, refused = NONE;
  if (wanted) ERT_TRY(choose(bundle, programs, wanted, options, &found, &refused));
  for (uint32_t i = 0; !wanted && found == NONE && i < programs.count; i++)
    if (!is_repeated(programs, i)) ERT_TRY(choose(bundle, programs, target_at(programs, i), options, &found, &refused));
  if (found == NONE && refused == NONE && wanted) return no_such_target(programs, wanted);
  if (found == NONE && (wanted || programs.count == 1)) {
    /* Again, for its message; a device may have come back meanwhile. */
    ERT_TRY(ert_program_runnable(bundle, refused, options));
    found = refused;
  }
  if (found == NONE) return explain(bundle, programs, options);
  *out = ert_item(programs, found);
  return EDGERT_OK;
}
