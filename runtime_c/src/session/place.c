/* On which CPU each worker runs where cores differ in speed. */
#include "session/session.h"

bool ert_workers_place(ert_table program, uint32_t workers, const char *folder, const cpu_set_t *allowed,
                       uint32_t *cpus) {
  ert_vector speeds = ert_items(program, ERT_FIELD_PROGRAM_SPEEDS);
  const float *speed = speeds.data;
  bool alike = true;
  for (uint32_t i = 1; i < speeds.count; i++) alike = alike && speed[i] == speed[0];
  if (alike) return false;
  uint32_t fastest[ERT_MOST_CORES];
  if (ert_cpus_by_capacity(folder, allowed, workers, fastest) < workers) return false;
  for (uint32_t w = 0; w < workers; w++) { /* by the first of its cores */
    uint32_t faster = 0;
    for (uint32_t other = 0; other < workers; other++)
      faster += speed[other] > speed[w] || (speed[other] == speed[w] && other < w);
    cpus[w] = fastest[faster];
  }
  return true;
}
