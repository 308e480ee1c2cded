/* How a sparse convolution is cut into strips of output rows, and which lines of inputs a strip reads. */
#ifndef ERT_KERNELS_SPARSE_GEOMETRY_H
#define ERT_KERNELS_SPARSE_GEOMETRY_H

#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/simd/simd.h"

enum {
  ERT_SPARSE_LINES = 256,   /* of a channel, and of a tile if indices are lines in 8 bits */
  ERT_SPARSE_KERNEL = 4096, /* taps along a dimension */
};

/* An input row of a strip in one phase: its columns are every stride-th one. */
typedef struct ert_sparse_line {
  int64_t depth, row, column; /* relative to the inputs of the strip's first output */
} ert_sparse_line;

/* A strip is `rows` neighbouring output rows of a segment of columns. What its outputs read is copied to scratch as
 * [channels][lines][line], of which neighbouring outputs read neighbouring floats; a row of outputs reads lines one further
 * on than the row above. Or taps are spread: each one has a line of its own, of one row. */
typedef struct ert_sparse_geometry {
  ert_conv_geometry g; /* of the outputs, which are one row if taps are spread and rows are joined */
  bool spread;
  bool flat;     /* outputs are one row: x is gathered by `unflattened` */
  bool in_place; /* not even that: lines are read where x has them */
  ert_conv_geometry unflattened;
  int64_t rows;             /* of a strip; the last one may have fewer */
  int64_t strips, segments; /* of one image, group and output depth; segments are cut evenly, in `unit`s of columns */
  int64_t unit;
  int64_t tile, tiles; /* channels of a tile, and how many there are */
  int64_t lines, line; /* of a channel; floats of one, */
  bool tailed;         /* and up to ERT_SPARSE_TAIL more, which lie apart: lines are whole vectors */
  int64_t runs;        /* that are copied of a channel, at most */
  ert_sparse_indices indexed;
  int64_t behind;        /* lines behind a tile that indices may lead to; none if they are gaps, which are proven */
  int64_t groups, reach; /* different columns at which taps begin; the last one */
  bool shift;            /* the columns are all from `reach` to 0: accumulators may be shifted instead */
  int64_t chunk;         /* rows that are summed up at once */
  int64_t together;      /* filters that have weights at the same places: 1 or 4 */
  int64_t deep;          /* neighbouring channels of which a filter has weights: 1 or 4 */
  ert_sparse_line at[ERT_SPARSE_LINES];
} ert_sparse_geometry;

/* Reads and proves the attributes of a sparse convolution x [N,C,spatial] -> y [N,K,spatial], and lays it out for the vectors
 * of `limits`. `joined`: the positions of images follow one another in all that has the shape of the output. */
edgert_status ert_sparse_geometry_read(const ert_prepare *p, bool joined, ert_sparse_geometry *out);

/* Reads the attribute 'together' of an operator of so many filters and channels (of a group), stored in tiles of `tile`: what an
 * entry is of, one filter or four; or one filter and four channels, `deep`. */
edgert_status ert_sparse_together(const ert_prepare *p, int64_t filters, int64_t channels, int64_t tile,
                                  int64_t *together, int64_t *deep);

/* The columns at which the taps of each group begin, the last ones first: columns[groups]. */
void ert_sparse_columns(const ert_sparse_geometry *s, ptrdiff_t *columns);

/* One strip: outputs [row, row + rows) by [column, column + columns) of a depth. */
typedef struct ert_sparse_strip {
  int64_t depth, row, rows, column, columns;
} ert_sparse_strip;

/* Strip `i` of strips * segments of one depth. */
ert_sparse_strip ert_sparse_strip_at(const ert_sparse_geometry *s, int64_t depth, int64_t i);

/* What is copied of each channel for a strip, to lines of `line` floats: at most s->runs runs, relative to the channel of an
 * image of x. */
size_t ert_sparse_runs(const ert_sparse_geometry *s, const ert_strides *x, const ert_sparse_strip *strip, int64_t line,
                       ert_sparse_run *runs);

/* Floats that are summed up for `rows` rows of `columns` outputs. */
static inline int64_t ert_sparse_floats(const ert_sparse_geometry *s, int64_t rows, int64_t columns) {
  const int64_t one = columns + (s->shift ? s->reach : 0);
  return (rows - 1) * s->line + (one < s->line ? one : s->line);
}

#endif
