/* How a scatter combines an update with what is there: one function for each reduction and element type. */
#ifndef ERT_KERNELS_COMBINE_H
#define ERT_KERNELS_COMBINE_H

#include <stdint.h>

typedef enum ert_reduction {
  ERT_COMBINE_NONE,
  ERT_COMBINE_ADD,
  ERT_COMBINE_MUL,
  ERT_COMBINE_MIN,
  ERT_COMBINE_MAX
} ert_reduction;

extern const char *const ert_reduction_names[]; /* in the order of the enum, then NULL */

/* dst[i] = dst[i] op src[i] for i < n. Integers wrap; float min and max propagate NaN; on bool add is or, mul is and. */
typedef void (*ert_combine)(void *dst, const void *src, int64_t n);

ert_combine ert_combine_of(ert_reduction reduction, uint8_t dtype);

#endif
