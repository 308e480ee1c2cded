/* Arguments of the pooling, reduction and softmax rows of an instruction set. */
#ifndef ERT_KERNELS_SIMD_FAMILIES_H
#define ERT_KERNELS_SIMD_FAMILIES_H

#include <stddef.h>

enum { ERT_DIRECT_SLACK = 15, ERT_SLIDE_SLACK = 64, ERT_MOST_TAPS = 255, ERT_NINE_LEAST = 5 };

/* Products of a sum that are added up one by one; the sums of such chains are then added. */
enum { ERT_CHAIN = 64 };

/* What a fold does with each value: adds x, its absolute value or its square; or keeps the largest or smallest
 * x, NaN if there is one. */
typedef enum ert_fold {
  ERT_FOLD_SUM,
  ERT_FOLD_ABS,
  ERT_FOLD_SQUARE,
  ERT_FOLD_MAX,
  ERT_FOLD_MIN,
} ert_fold;

/* A window's positions: counts and strides (in floats) of up to three dimensions. */
typedef struct ert_taps {
  size_t count[3];
  ptrdiff_t stride[3];
} ert_taps;

#endif
