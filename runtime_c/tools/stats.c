/* Times and memory, measured. */
#include "stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "text.h"

double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The time that at least p percent of the sorted times do not exceed. */
static double percentile(const double *ms, uint32_t runs, uint32_t p) {
  return ms[((uint64_t)(runs - 1) * p + 99) / 100];
}

static latency summarize(double *ms, uint32_t runs) {
  latency l = {.runs = runs};
  for (uint32_t i = 0; i < runs; i++) l.mean += ms[i] / runs;
  qsort(ms, runs, sizeof *ms, ascending);
  l.min = ms[0];
  l.p50 = percentile(ms, runs, 50);
  l.p90 = percentile(ms, runs, 90);
  l.p99 = percentile(ms, runs, 99);
  l.max = ms[runs - 1];
  return l;
}

bool measure(edgert_session *session, uint32_t runs, double duration, latency *out) {
  uint32_t room = runs ? runs : 1024, done = 0;
  double *ms = allocate(room, sizeof *ms), begin = now_ms(), end = begin;
  while (ms && (runs ? done < runs : done == 0 || end - begin < duration * 1e3) && done < UINT32_MAX / 2) {
    if (done == room) {
      double *more = realloc(ms, (size_t)room * 2 * sizeof *ms);
      if (!more) break; /* what was measured so far will do */
      ms = more;
      room *= 2;
    }
    double started = now_ms();
    if (edgert_session_run(session)) {
      free(ms);
      return fail_library();
    }
    end = now_ms();
    ms[done++] = end - started;
  }
  if (!ms) return false;
  *out = summarize(ms, done);
  free(ms);
  return true;
}

uint64_t peak_memory(void) {
  uint64_t kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  /* Unlike getrusage's, this number is not inherited from the program that started this one. */
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %" SCNu64, &kibibytes) == 1) break;
  if (file) fclose(file);
  struct rusage usage;
  if (kibibytes == 0 && getrusage(RUSAGE_SELF, &usage) == 0) kibibytes = (uint64_t)usage.ru_maxrss;
  return kibibytes * 1024;
}

void json_session(json *j, const edgert_session_info *info) {
  json_begin(j, "session", '{');
  json_text(j, "target", info->target);
  json_text(j, "isa", info->isa);
  json_count(j, "cores", info->cores);
  json_count(j, "threads", info->threads);
  json_count(j, "steps", info->steps);
  json_count(j, "slow_steps", info->slow_steps);
  json_count(j, "arena_bytes", info->arena_bytes);
  json_count(j, "scratch_bytes", info->scratch_bytes);
  json_end(j, '}');
}

void json_latency(json *j, const latency *l) {
  json_begin(j, "latency", '{');
  json_count(j, "runs", l->runs);
  json_real(j, "mean_ms", l->mean);
  json_real(j, "min_ms", l->min);
  json_real(j, "p50_ms", l->p50);
  json_real(j, "p90_ms", l->p90);
  json_real(j, "p99_ms", l->p99);
  json_real(j, "max_ms", l->max);
  json_end(j, '}');
}
