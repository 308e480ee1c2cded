/* How far an output is from what it should be. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor.h"

static difference different(const char *note) {
  difference d = {.max_abs = INFINITY, .max_rel = INFINITY, .passed = false};
  snprintf(d.note, sizeof d.note, "%s", note);
  return d;
}

/* Equal although one of them may not be finite. */
static bool same(double got, double want) { return got == want || (isnan(got) && isnan(want)); }

difference compare(const port *output, const void *want, size_t bytes, edgert_golden_info tolerance) {
  edgert_dtype dtype = output->info.dtype;
  size_t size = dtype_bytes(dtype), count = shape_elements(output->info.rank, output->shape), unequal = 0;
  difference d = {.max_abs = 0};
  double scale = 0;
  if (bytes != count * size) {
    char note[96];
    snprintf(note, sizeof note, "expected %zu bytes, got %zu", bytes, count * size);
    return different(note);
  }
  for (size_t i = 0; i < count; i++) {
    double x = element(dtype, output->data, i), y = element(dtype, want, i);
    unequal += memcmp((const char *)output->data + i * size, (const char *)want + i * size, size) != 0;
    if (!isfinite(x) || !isfinite(y)) {
      if (!same(x, y)) return different("infinities or NaNs differ");
      continue;
    }
    d.max_abs = fmax(d.max_abs, fabs(x - y));
    scale = fmax(scale, fabs(y));
  }
  d.max_rel = d.max_abs == 0 ? 0 : scale > 0 ? d.max_abs / scale : INFINITY;
  if (dtype_is_float(dtype)) {
    d.passed = d.max_abs <= (double)tolerance.atol + (double)tolerance.rtol * scale;
  } else {
    d.passed = unequal == 0;
    if (unequal) snprintf(d.note, sizeof d.note, "%zu of %zu elements differ", unequal, count);
  }
  return d;
}
