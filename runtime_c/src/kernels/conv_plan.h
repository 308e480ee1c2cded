/* How a convolution with packed weights is proven and cut: bands of output rows and columns by runs of output channels, and
 * what each task reads. */
#ifndef ERT_KERNELS_CONV_PLAN_H
#define ERT_KERNELS_CONV_PLAN_H

#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/simd/simd.h"

/* Proves operands x, weights (WEIGHT16, any type of ert_weights), [bias (BLOCK16)], [residual like y] -> y, x and y in any
 * layout of activations, and reads the geometry. `lines`: the weights' input channels are those of lines of the kernel
 * (ert_conv_line), whose last extent they lack, and the kernel's extents are an attribute. */
edgert_status ert_conv_expect_packed(const ert_prepare *p, bool lines, ert_conv_geometry *g);

/* Inputs that a line of the kernel sees, from its first column to its last, an even number of them. */
static inline int64_t ert_conv_line(const ert_conv_geometry *g) {
  return ((g->reach[2] + 1) * g->channels + 1) / 2 * 2;
}

/* How inputs are read. */
typedef enum ert_conv_inputs {
  ERT_CONV_IN_PLACE, /* where that can be; else as copies */
  ERT_CONV_COPIED,   /* always copied to scratch */
  ERT_CONV_LINES,    /* copied, planar ones, so that those of a line of the kernel are neighbours */
} ert_conv_inputs;

/* One task computes, for one image, group and output depth, a band of rows by a band of columns by a run of blocks of 16
 * output channels. Bands are cut evenly (ert_cut_at). All strides and sizes are in floats. */
typedef struct ert_conv_plan {
  ert_conv_geometry g;                   /* a 1x1 convolution over joined images is one row */
  bool gather;                           /* the band's inputs are copied to scratch, zero-padded; else read in place */
  int64_t row_bands, column_bands, runs; /* tasks of one image, group and depth */
  int64_t rows, columns;                 /* of the largest band */
  int64_t blocks;                        /* of 16 output channels in a group; the last one may be short */
  int64_t unit;                          /* runs are cut between multiples of this many blocks */
  /* The inputs of a band: in scratch [planes][in_rows][channel blocks][in_columns][lanes], or in the blocked image. Blocked
   * inputs keep their lanes, so that a group may begin within a block; planar ones begin at lane 0 of as many as needed. Of
   * lines there is one block, with all channels as lanes; zeros follow it up to a multiple of 16, one at least. */
  bool blocked;
  int64_t line; /* inputs of a line of the kernel; 0: those of a column at a time */
  int64_t in_rows, in_columns, lanes, channel_blocks;
  int64_t band_size;         /* of the whole copy; 0 if none */
  int64_t plane, row, block; /* between neighbouring inputs */
  int64_t x_row, x_pixel;    /* between the inputs of neighbouring outputs */
  size_t weights;            /* rows of 16 weights a block of output channels has */
} ert_conv_plan;

/* Cuts the convolution of `g` over the input x; `joined`: the positions of images follow one another in x and in all that
 * has the shape of the output. False if a size overflows. */
bool ert_conv_plan_make(const ert_conv_geometry *g, const ert_strides *x, bool joined, uint32_t workers,
                        ert_conv_inputs inputs, ert_conv_plan *out);

/* Where one task lies. */
typedef struct ert_conv_task {
  int64_t image, group, depth, row, column, block; /* the first ones */
  int64_t rows, columns, blocks;
  int64_t band; /* number of the band of inputs */
} ert_conv_task;

ert_conv_task ert_conv_task_at(const ert_conv_plan *plan, int64_t task);

/* Where the inputs lie that the taps of `parts` (depth, rows, columns; those of columns do not matter to lines) see, for a
 * group that begins at lane `lane` of its first block. No span goes on beyond a multiple of `pass` rows of weights,
 * which are whole chains or all there are. Returns the number of spans, which go to `spans` unless that is NULL. */
size_t ert_conv_plan_spans(const ert_conv_plan *plan, const ert_conv_part *const parts[3], int64_t lane, int64_t pass,
                           ert_span *spans);

/* The lane at which the inputs of a group begin. */
static inline int64_t ert_conv_plan_lane(const ert_conv_plan *plan, int64_t group) {
  return plan->blocked ? group * plan->g.channels % 16 : 0;
}

#endif
