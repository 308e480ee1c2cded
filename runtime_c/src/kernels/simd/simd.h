/* The float32 inner loops of one instruction set: every fast kernel calls through this table, chosen once at load.
 *
 * Each `simd-<isa>.c` sets ERT_ISA and ERT_VECTOR_BYTES and includes body.h, which includes one template header a family
 * (f32-conv.h, f32-unary.h, ...) written over the vectors of vec.h. `simd-scalar.c` is the specification: plain loops
 * (scalar-<family>.h) that every other table is tested against. To add a family: its struct here, its member in ert_simd,
 * one include and one initialiser in body.h and in simd-scalar.c. */
#ifndef ERT_KERNELS_SIMD_SIMD_H
#define ERT_KERNELS_SIMD_SIMD_H

#include <math.h>

#include "base/kernel.h"
#include "kernels/simd/families.h"

/* `count` consecutive inputs of a pixel, from x + offset, that meet `count` consecutive rows of 16 weights, `skip` rows after
 * those of the span before: the inputs of rows between are all zero. Where these go on beyond a multiple of ERT_CHAIN rows, a
 * span without inputs ends there. */
typedef struct ert_span {
  ptrdiff_t offset;
  size_t count, skip;
} ert_span;

/* How weights are stored. Reduced ones are widened to float32 before they are multiplied; dense ERT_WEIGHTS_BF16 have rows of
 * 16 weights in pairs, [rows / 2][16][2], and every span has an even count and skip. */
typedef enum ert_weights {
  ERT_WEIGHTS_F32,
  ERT_WEIGHTS_F16,
  ERT_WEIGHTS_BF16,
} ert_weights;

static inline ptrdiff_t ert_weights_bytes(ert_weights weights) { return weights == ERT_WEIGHTS_F32 ? 4 : 2; }

/* Sums of products (f32-dense.h): y[row][pixel][k] = clip(bias[k] + sum over spans of x * w + residual), and what y has
 * instead of the bias if it is begun. Output channels come
 * in blocks of 16, all lanes of which are read and written; strides are in elements. */
typedef struct ert_dense {
  const void *x; /* pixel 0 of row 0: floats, or what round_bf16 made of them */
  ptrdiff_t x_pixel, x_row;
  const ert_span *spans; /* relative to a pixel */
  size_t n_spans;
  const void *w;     /* [blocks][rows of weights][16] */
  ptrdiff_t w_block; /* rows of weights * 16 */
  ert_weights weights;
  ptrdiff_t
      w_pass; /* those that the spans meet if these are not all of a block, whole chains but for the last; else 0 */
  bool begun; /* earlier passes have put their sums, and the bias, to y */
  const float *bias; /* [blocks][16], or NULL */
  float *y;
  const float *residual; /* strides of y; may be y itself unless that is begun; or NULL */
  ptrdiff_t y_pixel, y_row, y_block;
  size_t rows, pixels, blocks;
  float lo, hi; /* limits of the outputs; may be infinite */
} ert_dense;

/* Products of a vector and a matrix (f32-vector.h): y[i] = clip(sum over k of x[k] * what the matrix has for k and i
 * (+ y[i] if `add`)). Strides are in floats. */
typedef struct ert_vector_product {
  const float *x, *matrix;
  ptrdiff_t pitch; /* between rows of the matrix */
  size_t depth, outputs;
  float *y;
  ptrdiff_t y_step; /* between outputs, where they are of rows */
  bool add;
  float lo, hi; /* limits of the outputs; may be infinite */
} ert_vector_product;

/* Rows of one block of 16 channels of a depthwise convolution (f32-depthwise.h). Taps that fall outside the input's height
 * and width are left out; depth taps are those that the caller found inside. Strides are in floats. */
typedef struct ert_depthwise {
  const float *x; /* column 0 of input row `x_first`, at the first depth tap; 16 lanes a column */
  int64_t x_first;
  ptrdiff_t x_plane, x_row; /* between depth taps, between input rows */
  const float *w;           /* [planes][kernel_h][kernel_w][16] */
  const float *bias;        /* [16], or NULL */
  float *y;                 /* 16 lanes a column */
  ptrdiff_t y_row;          /* between output rows */
  const float *residual;    /* as y; may be y itself; or NULL */
  int64_t planes, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  int64_t height, width, out_width, first, rows; /* rows first .. first + rows - 1 of the output */
  float lo, hi;                                  /* limits of the outputs; may be infinite */
} ert_depthwise;

/* A tap of a depthwise convolution over planar rows: where its inputs lie in scratch, relative to an output's place, and the
 * phase that has them. */
typedef struct ert_tap {
  int32_t at;
  uint8_t phase;
} ert_tap;

/* Lines of a phase that lie inside the input: every x_step-th float of rows x_row apart. */
typedef struct ert_phase {
  ptrdiff_t from, to; /* relative to a channel's x, and in scratch */
  size_t rows, columns;
} ert_phase;

/* All the taps of a depthwise kernel, rows of which read lines that others read for the next outputs (f32-depthwise-grid.h).
 * Channels with at least `least` of them that are not zero are computed with all of them. */
typedef struct ert_tap_grid {
  size_t least, depth, rows, columns; /* of taps */
  size_t apart;        /* rows of outputs from one to the next that reads lines of the same rows of taps */
  size_t stride;       /* how many rows of taps lie between these: 1 or 2 */
  ptrdiff_t step;      /* rows of the input between rows of taps */
  const ptrdiff_t *at; /* where every tap's inputs lie in scratch, relative to an output's place */
} ert_tap_grid;

/* Of `left` rows of taps, at least 4, how many are computed together: 4 to 7, so that at least 4 are left, or none. */
static inline size_t ert_grid_rows(size_t left) { return left <= 7 ? left : left < 11 ? left - 4 : 7; }

/* Rows of neighbouring channels of a depthwise convolution over planar activations (f32-depthwise-planar.h):
 * y[channel][row][pixel] = clip(bias[channel] + sum over taps of x * value + residual). Strides are in floats. */
typedef struct ert_depthwise_planar {
  const float *x;
  ptrdiff_t x_channel, x_row;
  size_t x_step;
  const ert_phase *phases;
  size_t n_phases;
  bool pairs;           /* phases 2 i and 2 i + 1 are every other column of the same rows */
  const ert_tap *table; /* by a tap's number */
  bool nine; /* 3 by 3 taps, x_step (1 or 2) apart both ways, a column of padding before each row: channels with at
              * least ERT_NINE_LEAST taps are computed without scratch (f32-depthwise-nine.h), from: */
  const ert_tap_grid *grid; /* or NULL */
  ptrdiff_t first, row; /* the input row of the first tap of the first outputs, which may lie outside; between rows */
  size_t stride;        /* input rows from one row of outputs to the next */
  ptrdiff_t height, width; /* of the input */
  float *scratch;          /* zeros where no phase lies, so that phases may end with a vector of them */
  size_t size;             /* floats of a channel in scratch, which holds two */
  size_t pitch;            /* floats between lines in scratch: 8, or a multiple of 16 */
  const float *values;     /* of the taps of all channels */
  const uint8_t *taps;     /* their numbers */
  const uint8_t *counts;   /* [channels]: how many taps each has, at most ERT_MOST_TAPS */
  size_t channels;
  const float *bias; /* [channels], or NULL */
  float *y;
  const float *residual; /* may be y itself; or NULL */
  ptrdiff_t y_channel, y_row, residual_channel, residual_row;
  size_t rows, pixels;
  float lo, hi; /* limits of the outputs; may be infinite */
} ert_depthwise_planar;

/* Rows of up to 16 filters of a convolution over planar rows (f32-direct.h): y[filter][row][pixel] = clip(bias[filter] + sum
 * over taps of x * w + residual). Neighbouring pixels are neighbours in memory. Strides are in floats. */
typedef struct ert_direct {
  const float *x; /* pixel 0 of row 0; up to ERT_DIRECT_SLACK floats past a row's last inputs are read too */
  ptrdiff_t x_row;
  const ptrdiff_t *taps; /* where the inputs of each tap lie, relative to a pixel */
  size_t n_taps;
  const float *w;    /* [n_taps][16] */
  const float *bias; /* [16], or NULL */
  float *y;
  const float *residual; /* may be y itself; or NULL */
  ptrdiff_t y_filter, y_row, residual_filter, residual_row;
  size_t filters, rows, pixels;
  float lo, hi; /* limits of the outputs; may be infinite */
  /* Where taps pass by some at a time, whole chains but for the last: the sums, 16 times rows of pixels, whose number is
   * rounded up to whole blocks of 16; whether earlier passes have put some there, and whether later ones need them. */
  float *sums;
  bool begun, unfinished;
} ert_direct;

/* Winograd's convolution (f32-winograd.h, winograd.h): neighbouring tiles of a row, of m by m outputs each, over one block of
 * 16 channels. Their (m + 2)^2 transformed inputs. Strides are in floats. */
typedef struct ert_winograd_input {
  int tile;       /* m: 2, 4 or 6 */
  const float *x; /* position (0, 0) of the image; 16 lanes a column */
  ptrdiff_t x_row;
  int64_t height, width; /* zeros lie outside of them */
  int64_t row, column;   /* of the first tile's first input; may lie outside */
  size_t tiles;
  float *y; /* [tiles][16], for each of the (m + 2)^2 `y_tap` apart */
  ptrdiff_t y_tap;
} ert_winograd_input;

/* The weights of `channels` channels, at most 16, for 16 filters: out of the 9 taps of a kernel the (m + 2)^2 of a tile. */
typedef struct ert_winograd_weights {
  int tile;
  const void *w; /* [9][channels][16] of `weights` */
  ert_weights weights;
  float *y; /* [channels][16], for each of the (m + 2)^2 `y_tap` apart */
  ptrdiff_t y_tap;
  size_t channels;
} ert_winograd_weights;

/* y[block][tile] = sum over channels of x * w, in chains of ERT_WINOGRAD_CHAIN channels that are added up. */
typedef struct ert_winograd_product {
  const float *x; /* [blocks of 16 channels][tiles][16] */
  const float *w; /* [blocks][channels][16] */
  ptrdiff_t w_block;
  float *y; /* [blocks][tiles][16] */
  size_t tiles, blocks, channels;
  bool add;          /* to what is in y */
  const char *ahead; /* what to fetch meanwhile, `lines` of 64 bytes; or NULL: the weights behind these */
  size_t lines;
} ert_winograd_product;

/* The outputs of those tiles of one block of 16 channels: clip(bias + transformed products + residual). */
typedef struct ert_winograd_output {
  int tile;
  const float *x; /* as y of the input */
  ptrdiff_t x_tap;
  const float *bias; /* [16], or NULL */
  float *y;          /* 16 lanes a column */
  ptrdiff_t y_row;
  const float *residual; /* may be y itself; or NULL */
  ptrdiff_t residual_row;
  size_t tiles, rows,
      columns;  /* of the last row and column of tiles, only outputs within rows and columns are stored */
  float lo, hi; /* limits of the outputs; may be infinite */
} ert_winograd_output;

/* Inputs of a sparse convolution on their way to scratch (f32-sparse-copy.h): of each channel the same runs: zeros, every
 * `step`-th float of the channel, zeros. They follow one another, and up to ERT_SPARSE_SLACK floats past the last run are
 * written; or each run of a channel is followed by that of the next one, all being `line` floats, which are whole vectors. */
enum { ERT_SPARSE_SLACK = 16, ERT_SPARSE_WIDE_LINES = 2048, ERT_SPARSE_SORTED = 32, ERT_SPARSE_TAIL = 4 };
typedef struct ert_sparse_run {
  ptrdiff_t from; /* relative to a channel */
  size_t before, count, after;
} ert_sparse_run;

typedef struct ert_sparse_copy {
  const float *x;
  ptrdiff_t x_channel;
  size_t step;
  const ert_sparse_run *runs;
  size_t n_runs, channels;
  size_t line, apart; /* floats of a run, and from one to the next; 0: of each channel all runs follow one another */
  float *to;
  void *list; /* ERT_SPARSE_LIST bytes, the first eight 0 before the first of several copies of these runs; or NULL */
} ert_sparse_copy;
enum { ERT_SPARSE_LIST = 10 * 1024 };

/* What an index is: a line, in 8 or 16 bits; or how many lines further on it is than the one before in its group. */
typedef enum ert_sparse_indices { ERT_SPARSE_LINE, ERT_SPARSE_WIDE_LINE, ERT_SPARSE_GAP } ert_sparse_indices;

static inline size_t ert_sparse_index_bytes(ert_sparse_indices indexed) {
  return indexed == ERT_SPARSE_WIDE_LINE ? 2 : 1;
}

/* Rows of pixels of some filters, as far as one tile of channels adds to them (f32-sparse.h): sums[filter][row][pixel] +=
 * sum over the filter's non-zeros of value * x[line * (its line + row) + column + pixel], the column being that of the
 * non-zero's group. The first tile adds the bias, the last one the residual, before it clips the sums and stores
 * them to y. */
typedef struct ert_sparse {
  const float *x; /* aligned to vectors, as `line` is if there are several rows */
  size_t line;
  /* [lines][ERT_SPARSE_TAIL]: what each line, of whole vectors, has behind them, of as many floats as are `floats`, `line`
   * and `sums_filter`; or NULL */
  const float *x_tail;
  const float *values;
  const uint8_t *indices; /* lines of 16 bits are counted modulo ERT_SPARSE_WIDE_LINES */
  ert_sparse_indices indexed;
  size_t together; /* filters that have weights at the same places, 1 or 4: a place has one index and as many values */
  size_t deep; /* 0, or floats between the lines of four channels that a place is of, with four values for one filter */
  const uint8_t *counts; /* [filters / together][groups], rows `counts_row` apart: places of each group */
  ptrdiff_t counts_row;
  bool sorted; /* the rows of every ERT_SPARSE_SORTED filters: which of these a row is of precedes its counts */
  const ptrdiff_t *columns; /* [groups] */
  size_t groups;
  bool shift; /* the columns are groups - 1, ..., 1, 0, and what lies past `line` may be taken for 0 in the last row */
  const float *bias; /* [filters], or NULL */
  float *sums;       /* between tiles: [filters][sums_filter] */
  size_t sums_filter;
  float *sums_tail; /* [filters][ERT_SPARSE_TAIL] */
  float *y;
  const float *residual; /* may be y itself; or NULL */
  ptrdiff_t y_filter, y_row, residual_filter, residual_row;
  size_t filters, rows, pixels;
  size_t floats; /* of one filter that are computed, rows `line` apart: at most the `most` of sparse_limits */
  bool first, last;
  float lo, hi; /* limits of the outputs; may be infinite */
} ert_sparse;

/* The first of the `together` filters of a sorted row of counts, which would be `filter` if rows were not sorted. */
static inline size_t ert_sparse_filter(size_t filter, const uint8_t *counts, size_t together) {
  return filter / ERT_SPARSE_SORTED * ERT_SPARSE_SORTED + counts[-1] * together;
}

/* Sixteen positions of a strip: where the first one is in inputs, outputs and residuals, in floats; which of the lanes are
 * outputs, and where these go: lanes 0 to n - 1 if they move together, else the same ones. */
typedef struct ert_unrolled_vector {
  ptrdiff_t x, y, residual;
  uint16_t valid, stored;
} ert_unrolled_vector;

/* A group of filters, as far as one tile of channels adds to them (f32-unrolled.h): for each vector, all sums stay in
 * registers while the channels pass by at which any of the filters has weights, tap by tap; where the instruction set has a
 * generator (unroll-avx512.h) and there is memory for it, as instructions that are made of them first.
 *
 * Channels come in batches of four, whose inputs are loaded at once. The lower six bits of the four bytes of a batch tell how
 * many channels further on each is, from the tap's first one; the others how many values the batch has. The last ones may be
 * no further on, and have no values: then they only fill the batch. An owner is the filter that a value is of, and which of
 * the four channels it multiplies, times 32. */
enum { ERT_UNROLLED_FILTERS = 28, ERT_UNROLLED_LANES = 16, ERT_UNROLLED_FAR = 63, ERT_UNROLLED_OWNER = 31 };

static inline uint32_t ert_unrolled_values(uint32_t batch) { return (batch >> 6 & 0x03030303) * 0x01041040 >> 24; }

/* How many channels further on each of a batch's is than the last one of the batch before, a byte each. */
static inline uint32_t ert_unrolled_further(uint32_t batch) { return (batch & 0x3f3f3f3f) * 0x01010101; }

enum {
  ERT_UNROLLED_SET = 64,    /* groups that vectors go through one by one, at most */
  ERT_UNROLLED_KEPT = 512,  /* channels of a tile that the first of them keeps for the others, at most */
  ERT_UNROLLED_LINE = 64,   /* bytes of a vector of inputs */
  ERT_UNROLLED_TAPS = 4096, /* at most */
  ERT_UNROLLED_FRAME = 4096 /* bytes of the instructions that groups share */
};

typedef struct ert_unrolled {
  const float *x;
  const int32_t *offsets; /* bytes from x to the first channel of the tile for each tap */
  int32_t channel;        /* bytes from each channel to the next */
  float *kept;     /* where the first group of a set keeps all channels of a vector, for the others: [channels][16] */
  size_t channels; /* of the tile */
  size_t taps;
  const int32_t *tap_batches; /* of each tap */
  const uint32_t *batches;
  const uint8_t *owners;
  const float *values;
  size_t n_values, n_filters;
  size_t share, shares; /* which share of the last tap's batches fetch what the next vector reads; 0 of 0: none */
  const ert_unrolled_vector *vectors;
  const uint16_t *masks; /* [vectors][taps]: the lanes that have inputs; the others are zeros */
  size_t n_vectors;
  bool bytes;                 /* inputs and values are quads of bytes, whose products are added up as integers */
  bool first, last, together; /* of the tiles; whether outputs move together, leaving lanes out that are none */
  const float *bias;          /* of the filters; NULL: none */
  float *sums;                /* between tiles, [vectors][n_filters][16] */
  float *y;
  ptrdiff_t y_filter;
  const float *residual; /* NULL: none */
  ptrdiff_t residual_filter;
  float lo, hi;         /* limits of the outputs; may be infinite */
  uint8_t *code, *body; /* memory for instructions: those that groups share, and this one's behind them; NULL: none */
  ptrdiff_t executable; /* how far from there they can be executed */
} ert_unrolled;

/* Inputs of a single tap, packed: sixteen positions of each channel, those of the next channel behind them, and those of the
 * next positions `apart` floats further on than `of.to`. */
typedef struct ert_unrolled_pack {
  ert_sparse_copy of;
  size_t vectors;
  ptrdiff_t apart;
  float *lines; /* room for the positions of ERT_UNROLLED_PACKED channels, and slack */
} ert_unrolled_pack;
enum { ERT_UNROLLED_PACKED = 8 };

/* Columns of a tile of a sparse matrix times one row of inputs, or four (f32-sparse-matrix.h): y[column][row] += sum over the
 * column's entries of value * x[place][row]. An entry's place is its index further on than that of the one before. It has one
 * value; or four, for `together` columns, or for `deep` inputs, of which places are counted. Each of four sums takes every
 * fourth entry. */
typedef struct ert_sparse_matrix {
  const float *x;               /* [inputs][lanes] */
  size_t lanes, together, deep; /* lanes: 1 or 4; of entries of one value also 8 or 16 */
  const char *values;
  ert_weights weights;
  const uint8_t *indices;
  const uint16_t *counts; /* [columns / together] */
  size_t columns;
  float *y; /* [columns][lanes] */
} ert_sparse_matrix;

/* Four columns of a matrix times one row of inputs, or four (f32-masked.h): sums[row][column] += sum over the inputs of
 * weight * x[row][input]. Every 16 inputs have a mask for each column, bit i of which is set if input i has a weight; values
 * of those follow each other by groups of 16, columns and inputs. Of each group 64 values at most are read, if their bits
 * are set or not. */
typedef struct ert_masked {
  const float *x[4];
  size_t lanes; /* 1 or 4 */
  size_t depth;
  const char *values;
  ert_weights weights;
  const uint16_t *masks;
  ptrdiff_t group; /* masks between groups */
  float sums[4][4];
} ert_masked;

/* A slice of 16 columns of a sparse matrix times a row of inputs (f32-sliced.h): in each step every column adds a weight,
 * which may be zero, times one of the 16 inputs from `windows` on. Which one `places` tells by four bits for each column:
 * those of even columns in the first four bytes, of odd ones in the last, the lower bits first. */
typedef struct ert_sliced {
  const float *x, *values; /* values: [steps][16] */
  const uint8_t *places;   /* [steps][8] */
  const uint16_t *windows; /* [steps] */
  size_t steps;
  float *sums; /* of 16 columns, which are added to */
} ert_sliced;

/* Gaps of rows that follow each other: of each row as many as `groups` neighbouring counts tell (sparse-gaps.h). */
typedef struct ert_gaps {
  const uint8_t *gaps, *end; /* end: of all that there are */
  const uint8_t *counts;
  ptrdiff_t counts_row;
  size_t groups, rows;
} ert_gaps;

/* How many floats of a filter a table sums up at once: up to `most`, lines being multiples of `vector`; or up to `unit_most`,
 * lines being multiples of `unit`; or up to `tail_most` with a tail. */
typedef struct ert_sparse_limits {
  int64_t vector, most, unit, unit_most, tail_most;
} ert_sparse_limits;

/* How rows of n are normalised: to zero mean and unit variance, or unit mean square, and by element scaled and shifted
 * unless these are NULL. */
typedef struct ert_normal {
  size_t n;
  double epsilon;
  bool rms;
  const float *scale, *shift;
} ert_normal;

/* What a row is centred by: y = ((x - mean) - rest) * factor. The mean is a float, and `rest` what it is short of, so that
 * a mean far from zero costs no digits. */
typedef struct ert_center {
  float mean, rest, factor;
} ert_center;

/* From a float32 mean, and the sums of differences from it and of their squares. */
static inline ert_center ert_center_of(const ert_normal *p, float mean, double sum, double square) {
  const double n = (double)p->n, rest = p->rms ? 0.0 : sum / n, variance = square / n - rest * rest;
  return (ert_center){mean, (float)rest, (float)(1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + p->epsilon))};
}

/* Local response normalisation (f32-reduce.h): y[i] = x[i] * (bias + alpha * sum over k of
 * neighbours[k * stride + i]^2)^-beta. */
typedef struct ert_lrn {
  float alpha, beta, bias;
  const float *neighbours;
  ptrdiff_t stride;
  size_t count;
  const float *x;
  float *y;
  size_t n;
} ert_lrn;

/* A row of outputs of a planar pool: where the first row of its windows and its outputs lie in a channel, how many
 * depths and rows of the windows lie inside the input, and how many an average counts. */
typedef struct ert_pool_row {
  ptrdiff_t x, y;
  size_t count[2];
  float divisor;
} ert_pool_row;

/* Rows of outputs of neighbouring channels of a planar pool (f32-pool.h): the columns of a row of windows are folded
 * into a line of scratch, along which the windows slide. Strides are in floats. */
typedef struct ert_pool_planar {
  bool average;
  const float *x;
  ptrdiff_t x_channel, x_stride[2]; /* x_stride: between depths and between rows of a window */
  const ert_pool_row *rows;
  size_t n_rows, channels;
  size_t columns, before; /* of the input that windows see, and of the padding before them */
  size_t taps, step;      /* of a window, and between windows */
  ptrdiff_t tap;
  const float *divisors; /* averages: of each column of outputs; ERT_SLIDE_SLACK more are read */
  float *factors;        /* scratch for as many */
  float *lines; /* scratch: two for each row, `before` floats before a whole vector; ERT_SLIDE_SLACK more are read */
  size_t pitch; /* between lines: a multiple of 16, with room for a vector behind `before` */
  float *y;
  ptrdiff_t y_channel;
  size_t n;    /* outputs of a row */
  bool joined; /* every row of outputs of a channel follows the one before it */
} ert_pool_planar;

/* One instruction set; members in the order of body.h. */
typedef struct ert_simd {
  const char *name; /* as select.c lists them: "scalar", "avx2", "neon", ... */
  void (*dense)(const ert_dense *d);
  /* Rows of weights that should pass by at a time, whole chains, so that those of a block, which many tiles need, stay in the
   * first-level cache; 0: as many as there are. */
  size_t dense_pass, direct_pass;
  /* The same with inputs rounded to bf16, to nearest even, and weights in bf16: products are exact, sums float32. round_bf16
   * rounds n floats, a multiple of 16, to elements of bf16_bytes as dense_bf16 reads them: 2, or 4 where it takes floats.
   * With 2, spans begin and rows lie at even elements. */
  void (*dense_bf16)(const ert_dense *d);
  void (*round_bf16)(const float *x, void *y, size_t n);
  size_t bf16_bytes;
  /* A vector times the columns of a matrix [depth][outputs], the same bits as `dense` gives; times the rows of a matrix
   * [outputs][depth], in an order of its own. */
  void (*vector_columns)(const ert_vector_product *p);
  void (*vector_rows)(const ert_vector_product *p);
  void (*depthwise)(const ert_depthwise *d);
  void (*depthwise_planar)(const ert_depthwise_planar *d);
  void (*direct)(const ert_direct *d);
  ert_sparse_limits sparse_limits[2]; /* of one filter, and of four together */
  void (*sparse)(const ert_sparse *s);
  void (*sparse_copy)(const ert_sparse_copy *c);
  void (*sparse_widen)(ert_weights weights, const uint16_t *x, float *y,
                       size_t n); /* of y whole blocks of 16 are written */
  /* The largest sum of the gaps of a group in a row. */
  uint32_t (*sparse_farthest)(const ert_gaps *g);
  void (*sparse_matrix)(const ert_sparse_matrix *m);
  void (*masked)(ert_masked *m);
  void (*sliced)(const ert_sliced *s);
  void (*unrolled_pack)(const ert_unrolled_pack *pack);
  /* Each vector goes through all n groups of a set. */
  void (*unrolled)(const ert_unrolled *groups, size_t n);
  /* The instructions that groups share, which begin and end their sums alike, at code, and those of a group at body; return
   * where these end. The bytes of a group's, at most; NULL: none are generated. */
  uint8_t *(*unrolled_frame)(const ert_unrolled *u);
  uint8_t *(*unrolled_group)(const ert_unrolled *u);
  size_t (*unrolled_bytes)(size_t taps, size_t batches, size_t values, size_t kept);
  void (*winograd_input)(const ert_winograd_input *in);
  void (*winograd_weights)(const ert_winograd_weights *w);
  void (*winograd_multiply)(const ert_winograd_product *d);
  void (*winograd_output)(const ert_winograd_output *out);
  void (*unary)(int kind, float alpha, float beta, const float *x, float *y, size_t n); /* unary_kinds.h; y may be x */

  /* y = a op b and y = x * scale + shift, clipped to limits that may be infinite; kinds and forms in binary_kinds.h; y may
   * be a non-repeated operand. */
  void (*binary)(int kind, int form, const float *a, const float *b, float *y, size_t n);
  void (*affine)(int form, const float *x, const float *scale, const float *shift, float lo, float hi, float *y,
                 size_t n);

  /* Folds (families.h) of a row into one number, and of rows `stride` apart into acc[0..width): a column's rows one after
   * the other, whatever its place. `fold_rows`: each of `rows` rows `stride` apart into a number of its own, as fold_row
   * does from the fold's first value. */
  float (*fold_row)(int fold, float acc, const float *x, size_t n);
  void (*fold_rows)(int fold, const float *x, ptrdiff_t stride, size_t n, size_t rows, float *y);
  void (*fold_columns)(int fold, const float *x, ptrdiff_t stride, size_t rows, float *acc, size_t width);
  /* The sums of x - shift, and of its squares. */
  void (*moments)(float shift, const float *x, size_t n, float sums[2]);
  /* A row centred, times scale[i] and plus shift[i] unless these are NULL; and rows so normalised by what fold_row and
   * moments give: the same bits. y may be x. */
  void (*center)(const ert_center *c, const float *scale, const float *shift, const float *x, float *y, size_t n);
  void (*normalize_rows)(const ert_normal *p, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row, size_t rows);
  void (*lrn)(const ert_lrn *l);

  /* Softmax of rows of n, and of `width` columns of n rows a stride apart: the same bits for the same values; y may be x. */
  void (*softmax_rows)(bool log, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row, size_t n, size_t rows);
  void (*softmax_columns)(bool log, const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride, size_t n,
                          size_t width);

  /* Windows of n pixels of 16 lanes, the first at x, the next `step` floats on: their sum by `factor`, or largest
   * value. */
  void (*pool_blocks)(bool average, const ert_taps *taps, const float *x, ptrdiff_t step, float factor, float *y,
                      size_t n);
  void (*pool_planar)(const ert_pool_planar *p);
} ert_simd;

/* The tables this machine can execute, best first, NULL-terminated; the last one is scalar. */
const ert_simd *const *ert_simd_available(void);

/* The table called `isa`, or the best one if isa is NULL. NULL if this machine cannot execute it or the name is unknown. */
const ert_simd *ert_simd_find(const char *isa);

#endif
