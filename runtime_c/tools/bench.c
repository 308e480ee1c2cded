/* edgert-native bench: latency, time to open, memory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "network.h"
#include "stats.h"
#include "text.h"
#include "verbs.h"

typedef struct results {
  double open_ms;
  latency first, steady;
  uint64_t peak_bytes, grown_bytes;
} results;

static void print_json(const edgert_session_info *info, const results *r) {
  json j = {0};
  json_begin(&j, NULL, '{');
  json_session(&j, info);
  json_real(&j, "open_ms", r->open_ms);
  json_real(&j, "first_ms", r->first.mean);
  json_latency(&j, &r->steady);
  json_count(&j, "peak_bytes", r->peak_bytes);
  json_count(&j, "grown_bytes", r->grown_bytes);
  json_end(&j, '}');
}

static void print(const arguments *a, const edgert_session_info *info, const results *r) {
  const latency *l = &r->steady;
  printf("%s: %s, cores %" PRIu32 ", %s, threads %" PRIu32 ", %" PRIu32 " steps\n", printable(a->bundle).s,
         printable(info->target).s, info->cores, info->isa, info->threads, info->steps);
  printf("  open    %.3f ms (integrity %s)\n", r->open_ms, a->integrity);
  printf("  first   %.3f ms\n", r->first.mean);
  printf("  steady  p50 %.3f  p90 %.3f  p99 %.3f  min %.3f  max %.3f  mean %.3f ms  (%" PRIu32 " runs)\n", l->p50,
         l->p90, l->p99, l->min, l->max, l->mean, l->runs);
  printf("  memory  peak %s, of it %s by the bundle\n", size_text(r->peak_bytes).s, size_text(r->grown_bytes).s);
}

static bool bench(const arguments *a, const edgert_bundle *bundle, double started, uint64_t before) {
  network n;
  results r = {.open_ms = 0};
  latency warm;
  bool good = network_open(bundle, a, a->isa, &n);
  r.open_ms = now_ms() - started;
  good = good && network_feed(&n, &a->inputs, false) && measure(n.session, 1, 0, &r.first) &&
         (a->warmup < 2 || measure(n.session, a->warmup - 1, 0, &warm));
  r.peak_bytes = peak_memory(); /* later runs need no more, but the times that are kept do */
  r.grown_bytes = r.peak_bytes - before;
  good = good && measure(n.session, a->runs, a->duration, &r.steady);
  if (good && a->json) print_json(&n.info, &r);
  if (good && !a->json) print(a, &n.info, &r);
  network_close(&n);
  return good;
}

int verb_bench(const arguments *a) {
  bool metadata = strcmp(a->integrity, "metadata") == 0;
  if (!metadata && strcmp(a->integrity, "full") != 0) {
    fail("--integrity\nexpected full or metadata, got '%s'", a->integrity);
    return EXIT_ERROR;
  }
  edgert_open_options options = {
      .struct_size = sizeof options,
      .integrity = metadata ? EDGERT_INTEGRITY_METADATA : EDGERT_INTEGRITY_FULL,
      .threads = a->threads,
  };
  edgert_bundle *bundle;
  uint64_t before = peak_memory();
  double started = now_ms();
  bool good = edgert_bundle_open(a->bundle, &options, &bundle) ? fail_library() : bench(a, bundle, started, before);
  edgert_bundle_close(bundle);
  return good ? EXIT_PASSED : EXIT_ERROR;
}
