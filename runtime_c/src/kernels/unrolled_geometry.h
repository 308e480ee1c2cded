/* How an unrolled convolution is cut into strips of output rows, and where in the inputs of a strip each tap is. */
#ifndef ERT_KERNELS_UNROLLED_GEOMETRY_H
#define ERT_KERNELS_UNROLLED_GEOMETRY_H

#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/simd/simd.h"

/* Inputs that neighbouring outputs read for a tap are neighbours, in rows `pitch` apart as those of the outputs are: so the
 * positions of a strip are one row, `pitch` being at least the outputs' and inputs' width, and a tap is one distance. If
 * strides are 1 and rows are that far apart, x is read where it is; else its rows and columns of each phase are copied as a
 * plane of their own, without padding. What lies beyond a row, or is no input at all, is masked.
 *
 * Channels that lie far apart cost more to load than to multiply: each needs a page and a line of the cache of its own. Where
 * there is one tap, inputs are packed vector by vector as they are copied; or the first of a set of groups of filters keeps
 * them packed for the others. Sets are as many groups as have room for their instructions, and each vector goes through all of
 * them while the first-level cache has its inputs. Where there are several, and so few values that loads are what takes time,
 * rows are whole vectors, copied so that those of all channels are neighbours: few pages, and most vectors are lines. Groups
 * are in sets then, too. */
typedef struct ert_unrolled_geometry {
  ert_conv_geometry g;
  int64_t taps, tile, tiles; /* channels of a tile, and how many there are */
  int64_t pitch;
  bool in_place;
  bool kept;   /* x is read where it is by the first group of a set, which keeps it for the others */
  bool packed; /* copied vector by vector, all channels of a tile behind each other */
  bool rowed;  /* copied row by row, likewise */
  size_t room; /* bytes of the instructions of a set; 0: sets are single groups */
  bool joined; /* rows of outputs, and of residuals, follow one another: vectors may have positions of several */
  int64_t rows, strips;   /* of a strip; of the outputs of a depth */
  int64_t phases[3];      /* planes of a channel that are copied: depths, phases of rows and of columns */
  int64_t first, height;  /* of a plane: its first row, relative to the strip's, and how many it has */
  int64_t line;           /* floats from a row to the next */
  int64_t plane, channel; /* floats from one to the next, and from those of a channel to those of the next */
  int64_t apart;          /* floats from one vector to the next */
} ert_unrolled_geometry;

/* Reads and proves the attributes of an unrolled convolution x [N,C,spatial] -> y [N,K,spatial]. */
edgert_status ert_unrolled_geometry_read(const ert_prepare *p, const ert_strides *x, bool joined,
                                         ert_unrolled_geometry *out);

/* Vectors of a strip of so many rows. */
int64_t ert_unrolled_vectors(const ert_unrolled_geometry *s, int64_t rows);

/* Planes that are copied of each channel; of how many runs, at most; and those of a strip. Returns how many there are. */
static inline int64_t ert_unrolled_planes(const ert_unrolled_geometry *s) {
  return s->phases[0] * s->phases[1] * s->phases[2];
}
static inline int64_t ert_unrolled_runs(const ert_unrolled_geometry *s) { return ert_unrolled_planes(s) * s->height; }
size_t ert_unrolled_list_runs(const ert_unrolled_geometry *s, const ert_strides *x, int64_t depth, int64_t row,
                              ert_sparse_run *runs);

/* Floats from a channel to the next, where they are read. */
static inline int64_t ert_unrolled_channel(const ert_unrolled_geometry *s, const ert_strides *x) {
  return s->in_place ? x->channel : s->channel;
}

/* Bytes from the input of the first position of a strip to that of the first channel of a tile for each tap. False if those
 * of any channel are more than 32 bits tell. */
bool ert_unrolled_list_offsets(const ert_unrolled_geometry *s, const ert_strides *x, int32_t *offsets);

/* Of vectors that begin at each column: the lanes whose columns are outputs and have an input for each tap of a row, and
 * behind these those that are outputs: [pitch][kernel + 1]. */
void ert_unrolled_list_columns(const ert_unrolled_geometry *s, uint16_t *columns);

/* The vectors of a strip that begins at output row `row` of a depth, and for each the lanes that have an input for each tap:
 * [vectors][taps]. Returns how many there are. */
size_t ert_unrolled_list_vectors(const ert_unrolled_geometry *s, const ert_strides *y, const ert_strides *residual,
                                 const uint16_t *columns, int64_t depth, int64_t row, ert_unrolled_vector *vectors,
                                 uint16_t *masks);

#endif
