/* Times and memory, measured. */
#ifndef EDGERT_TOOLS_STATS_H
#define EDGERT_TOOLS_STATS_H

#include <stdbool.h>

#include "edgert/edgert.h"
#include "json.h"

/* Milliseconds of the wall time of single runs; `p` percent of runs took at most that long. */
typedef struct latency {
  uint32_t runs;
  double mean, min, p50, p90, p99, max;
} latency;

/* Monotonic, milliseconds. */
double now_ms(void);

/* Times runs of a session whose buffers are bound: `runs` of them, or if 0 at least one and for `duration` seconds.
 * False with an error printed. */
bool measure(edgert_session *session, uint32_t runs, double duration, latency *out);

/* The most memory this process ever had resident, bytes. */
uint64_t peak_memory(void);

/* The members of a JSON object that describe a session, and a latency. */
void json_session(json *j, const edgert_session_info *info);
void json_latency(json *j, const latency *l);

#endif
