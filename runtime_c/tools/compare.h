/* How far an output is from what it should be. */
#ifndef EDGERT_TOOLS_COMPARE_H
#define EDGERT_TOOLS_COMPARE_H

#include "network.h"

/* max_abs = max |got - want|, max_rel = max_abs / max |want|; infinite where a size, a NaN or an infinity differs. */
typedef struct difference {
  double max_abs, max_rel;
  bool passed;
  char note[96]; /* what the numbers do not say, or "" */
} difference;

/* Compares an output with `bytes` bytes of elements; integers and booleans pass only if equal. */
difference compare(const port *output, const void *want, size_t bytes, edgert_golden_info tolerance);

#endif
