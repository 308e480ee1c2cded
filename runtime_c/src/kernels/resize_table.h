/* Where each output of a resized axis comes from: the inputs it mixes and their weights, computed once. */
#ifndef ERT_KERNELS_RESIZE_TABLE_H
#define ERT_KERNELS_RESIZE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* In the order of packer.ir.ops.Resize. */
typedef enum ert_resize_mode { ERT_RESIZE_NEAREST, ERT_RESIZE_LINEAR, ERT_RESIZE_CUBIC } ert_resize_mode;
typedef enum ert_resize_coordinate {
  ERT_HALF_PIXEL,
  ERT_HALF_PIXEL_SYMMETRIC,
  ERT_PYTORCH_HALF_PIXEL,
  ERT_ALIGN_CORNERS,
  ERT_ASYMMETRIC,
  ERT_TF_CROP_AND_RESIZE,
} ert_resize_coordinate;
typedef enum ert_resize_rounding { ERT_PREFER_FLOOR, ERT_PREFER_CEIL, ERT_FLOOR, ERT_CEIL } ert_resize_rounding;

typedef struct ert_resize_rule {
  int mode, coordinate, rounding;
  bool exclude_outside, antialias;
  double cubic_a;
} ert_resize_rule;

typedef struct ert_resize_axis {
  int64_t in, out;   /* sizes; in is 1 to INT32_MAX */
  double scale;      /* above 0 */
  double start, end; /* region of interest, for tf_crop_and_resize */
  /* Filled by ert_resize_fill. */
  int64_t taps;     /* inputs mixed into each output; 0: output i is input i and there is no table */
  int32_t *index;   /* [out][taps], each in [0, in) */
  float *weight;    /* [out][taps]; NULL: one tap of weight 1 */
  uint8_t *outside; /* [out], 1 where the output is the extrapolation value; NULL: nowhere */
} ert_resize_axis;

/* Inputs mixed into each output of the axis, 0 if the outputs are the inputs. */
int64_t ert_resize_taps(const ert_resize_rule *rule, const ert_resize_axis *axis);

/* Fills the tables that the axis points to; `taps` is set. */
void ert_resize_fill(const ert_resize_rule *rule, const ert_resize_axis *axis);

#endif
