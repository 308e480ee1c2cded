/* edgert-native selftest: contents intact, golden outputs reproduced on each instruction set asked for, fast enough. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "network.h"
#include "stats.h"
#include "text.h"
#include "verbs.h"

/* A golden output on one instruction set. */
typedef struct row {
  const char *isa, *name;
  difference found;
} row;

typedef struct verdict {
  row *rows;
  size_t count;
  edgert_session_info session; /* the timed one */
  latency times;
  bool answers_right, on_time;
} verdict;

/* Runs one golden sample and compares what it has outputs for. */
static bool test_sample(network *n, uint32_t sample, verdict *v) {
  edgert_golden_info tolerance;
  const void *data;
  size_t bytes;
  if (edgert_session_golden(n->session, sample, &tolerance)) return fail_library();
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    if (edgert_session_golden_input(n->session, sample, i, &data, &bytes)) return fail_library();
    if (bytes > 0) memcpy(n->inputs[i].data, data, bytes);
  }
  if (!network_answer(n)) return false;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    if (edgert_session_golden_output(n->session, sample, i, &data, &bytes)) return fail_library();
    if (!data) continue;
    row *r = &v->rows[v->count++];
    *r = (row){n->info.isa, n->outputs[i].info.name, compare(&n->outputs[i], data, bytes, tolerance)};
    v->answers_right = v->answers_right && r->found.passed;
  }
  return true;
}

/* The latency of the network on the inputs that it has. */
static bool test_latency(const arguments *a, const network *n, verdict *v) {
  latency warm;
  v->session = n->info;
  if (!measure(n->session, 3, 0, &warm) || !measure(n->session, a->runs, a->duration, &v->times)) return false;
  v->on_time = v->times.p99 <= a->deadline_ms;
  return true;
}

static bool test_isa(const arguments *a, const edgert_bundle *bundle, const char *isa, bool timed, verdict *v) {
  static const list none = {NULL, 0};
  network n;
  edgert_bundle_info info;
  bool good = network_open(bundle, a, isa, &n) && network_feed(&n, &none, false);
  if (good && edgert_bundle_describe(bundle, &info)) good = fail_library();
  if (good) {
    size_t room = v->count + (size_t)info.goldens * n.n_outputs;
    row *rows = realloc(v->rows, (room ? room : 1) * sizeof *rows);
    good = rows != NULL || fail("memory for %zu results could not be allocated", room);
    if (rows) v->rows = rows;
  }
  for (uint32_t i = 0; good && i < info.goldens; i++) good = test_sample(&n, i, v);
  good = good && (!timed || test_latency(a, &n, v));
  network_close(&n);
  return good;
}

/* The instruction sets that --isa names: the best one without it, every one for "all". */
static bool test_all(const arguments *a, const edgert_bundle *bundle, verdict *v) {
  bool all = a->isas.count == 1 && strcmp(a->isas.items[0], "all") == 0;
  bool listed = a->isas.count > 0 && !all;
  for (uint32_t i = 0; listed ? i < a->isas.count : edgert_isa(i) && (all || i == 0); i++)
    if (!test_isa(a, bundle, listed ? a->isas.items[i] : edgert_isa(i), i == 0, v)) return false;
  return true;
}

static void print_json(const arguments *a, const char *integrity, const verdict *v, bool passed) {
  json j = {0};
  json_begin(&j, NULL, '{');
  json_bool(&j, "passed", passed);
  json_text(&j, "integrity", integrity);
  if (v)
    json_session(&j, &v->session);
  else
    json_text(&j, "session", NULL);
  json_begin(&j, "outputs", '[');
  for (size_t i = 0; v && i < v->count; i++) {
    const row *r = &v->rows[i];
    json_begin(&j, NULL, '{');
    json_text(&j, "isa", r->isa);
    json_text(&j, "name", r->name);
    json_real(&j, "max_abs", r->found.max_abs);
    json_real(&j, "max_rel", r->found.max_rel);
    json_bool(&j, "passed", r->found.passed);
    json_text(&j, "note", r->found.note);
    json_end(&j, '}');
  }
  json_end(&j, ']');
  if (v)
    json_latency(&j, &v->times);
  else
    json_text(&j, "latency", NULL);
  json_real(&j, "deadline_ms", a->deadline_ms);
  if (v && isfinite(a->deadline_ms))
    json_bool(&j, "on_time", v->on_time);
  else
    json_text(&j, "on_time", NULL);
  json_end(&j, '}');
}

static void print(const arguments *a, const verdict *v, bool passed) {
  printf("integrity: ok\n");
  for (size_t i = 0; i < v->count; i++) {
    const row *r = &v->rows[i];
    printf("golden output '%s' on %s: %s ", printable(r->name).s, r->isa, r->found.passed ? "ok" : "FAIL");
    if (*r->found.note)
      printf("(%s)\n", r->found.note);
    else
      printf("(max error %.3g, relative %.3g)\n", r->found.max_abs, r->found.max_rel);
  }
  if (v->count == 0) printf("golden output: none in the bundle\n");
  const latency *l = &v->times;
  printf("latency on %s: p50 %.3f  p90 %.3f  p99 %.3f ms (%" PRIu32 " runs)", v->session.isa, l->p50, l->p90, l->p99,
         l->runs);
  if (isfinite(a->deadline_ms)) printf(", deadline %g: %s", a->deadline_ms, v->on_time ? "met" : "FAIL");
  const bool unproven = passed && v->count == 0;
  printf("\n%s%s\n", passed ? "PASS" : "FAIL",
         unproven ? ", but no output was compared: pack without --no-golden" : "");
}

/* A damaged file is a verdict, not an error. */
static int damaged(const arguments *a) {
  if (a->json)
    print_json(a, edgert_last_error(), NULL, false);
  else
    printf("integrity: %s\nFAIL\n", edgert_last_error());
  return EXIT_FAILED;
}

int verb_selftest(const arguments *a) {
  edgert_open_options options = {.struct_size = sizeof options, .threads = a->threads};
  edgert_bundle *bundle;
  edgert_status status = edgert_bundle_open(a->bundle, &options, &bundle);
  if (status == EDGERT_ERROR_CORRUPT || status == EDGERT_ERROR_TRUNCATED) return damaged(a);
  int code = EXIT_ERROR;
  verdict v = {.answers_right = true, .on_time = true};
  if (status) {
    fail_library();
  } else if (test_all(a, bundle, &v)) {
    bool passed = v.answers_right && v.on_time;
    code = passed ? EXIT_PASSED : EXIT_FAILED;
    if (a->json)
      print_json(a, "ok", &v, passed);
    else
      print(a, &v, passed);
  }
  free(v.rows);
  edgert_bundle_close(bundle);
  return code;
}
