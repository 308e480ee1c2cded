/* linear_sparse: rows of a planar input times a constant matrix of which only the non-zeros are stored, plus bias and
 * activation. */
#include <string.h>

#include "base/checked.h"
#include "kernels/linear_rows.h"
#include "kernels/partition.h"
#include "kernels/sparse_geometry.h"
#include "kernels/transpose.h"
#include "kernels/weights.h"

enum {
  TILE = 4096, /* inputs whose entries follow each other */
  BLOCK = 16,  /* columns that have one start */
  COLUMN = 11, /* entries that a column in a tile takes as long as, to begin and to end it */
};

/* A task computes a band of `lanes` rows by a run of blocks of columns. Its inputs lie in scratch as [depth][lanes], its sums
 * as [columns][lanes]. An entry is of one column and input, or of four of either. */
typedef struct sparse_state {
  ert_linear_rows r;
  const ert_simd *simd;
  int64_t tiles, blocks;
  int64_t together, deep; /* columns and inputs of an entry */
  int64_t lanes, bands, runs;
  int64_t counts_tile, starts_tile; /* elements between tiles */
  const uint16_t *counts;
  int64_t ends[]; /* of the runs: blocks */
} sparse_state;

static edgert_status read_stream(const ert_prepare *p, const ert_linear_rows *r, int64_t *together, int64_t *deep) {
  static const edgert_dtype dtypes[] = {EDGERT_F32, EDGERT_U8, EDGERT_U16, EDGERT_I32};
  const ert_tensor *const *in = (const ert_tensor *const *)p->step->in;
  const int64_t tiles = ert_ceil_divide(r->depth, TILE);
  for (int i = 1; i <= 4; i++)
    if (i != 1 || !ert_dtype_reduced(in[1]->dtype)) ERT_TRY(ert_expect_dtype(p, in[i], dtypes[i - 1]));
  *together = *deep = 1;
  if (ert_attribute_find(p, "together")) ERT_TRY(ert_sparse_together(p, r->columns, r->depth, TILE, together, deep));
  for (int i = 1; i <= 2; i++)
    if (!in[i]->constant || !in[i]->compact) return ert_reject(p, "non-zeros", "a constant, no part of one", "others");
  const int64_t entries = in[2]->shape[0], values = entries * *together * *deep;
  ERT_TRY(ert_expect_shape(p, in[2], 1, &entries));
  ERT_TRY(ert_expect_shape(p, in[1], 1, &values));
  for (int i = 3; i <= 4; i++)
    if (!in[i]->constant) return ert_reject(p, "counts and starts", "constants", "others");
  ERT_TRY(ert_expect_shape(p, in[3], 2, (const int64_t[]){tiles, r->columns / *together}));
  return ert_expect_shape(p, in[4], 2, (const int64_t[]){tiles, ert_ceil_divide(r->columns, BLOCK)});
}

/* The entries of a column read inputs of their tile only. */
static edgert_status prove_places(const ert_prepare *p, const uint8_t *indices, int64_t count, int64_t places) {
  uint32_t last = 0; /* of 65,535 bytes at most */
  for (int64_t i = 0; i < count; i++) last += indices[i];
  if (count > 0 && last >= places)
    return ert_reject(p, "place of the last entry of a column", "within its tile", "%u of %lld", (unsigned)last,
                      (long long)places);
  return EDGERT_OK;
}

/* The entries of every block lie in the stream, behind those of the blocks before it. */
static edgert_status sparse_prove(const ert_prepare *p) {
  const sparse_state *s = p->step->state;
  const int32_t *starts = p->step->in[4]->data;
  const uint8_t *indices = p->step->in[2]->data;
  const int64_t entries = p->step->in[2]->elements, rows = BLOCK / s->together;
  int64_t ended = 0;
  for (int64_t t = 0; t < s->tiles; t++) {
    const uint16_t *counts = s->counts + t * s->counts_tile;
    const int64_t places = ert_min64(TILE, s->r.depth - t * TILE) / s->deep;
    for (int64_t b = 0; b < s->blocks; b++) {
      const int64_t end = ert_min64((b + 1) * rows, s->r.columns / s->together), start = starts[t * s->starts_tile + b];
      if (start < ended || (b > 0 && start > ended))
        return ert_reject(p, "start of a block of columns", "the end of the block before", "%lld, not %lld",
                          (long long)start, (long long)ended);
      ended = start;
      for (int64_t k = b * rows; k < end; ended += counts[k++]) {
        if (ended > entries || counts[k] > entries - ended)
          return ert_reject(p, "entries of a column", "within the stream", "%d from %lld on, of %lld", counts[k],
                            (long long)ended, (long long)entries);
        ERT_TRY(prove_places(p, indices + ended, counts[k], places));
      }
    }
  }
  return EDGERT_OK;
}

/* What a block of columns takes, in entries. */
static int64_t work_of(const void *of, int64_t block) {
  const sparse_state *s = of;
  const int64_t rows = BLOCK / s->together, end = ert_min64((block + 1) * rows, s->r.columns / s->together);
  int64_t work = 0;
  for (int64_t t = 0; t < s->tiles; t++)
    for (int64_t k = block * rows; k < end; k++) work += s->counts[t * s->counts_tile + k] + COLUMN;
  return work;
}

/* Rows that are computed together, where an entry has so many values. */
static int64_t lanes_of(int64_t rows, int64_t values) {
  if (rows == 1) return 1;
  if (rows <= 4 || values > 1) return 4;
  return rows <= 8 ? 8 : 16;
}

static edgert_status sparse_prepare(ert_prepare *p) {
  ert_linear_rows r;
  int64_t together, deep;
  ERT_TRY(ert_linear_rows_read(p, 4, &r));
  ERT_TRY(read_stream(p, &r, &together, &deep));
  if (r.rows == 0) return EDGERT_OK;
  sparse_state *s;
  const int64_t blocks = ert_ceil_divide(r.columns, BLOCK);
  const int64_t lanes = lanes_of(r.rows, together * deep), bands = ert_ceil_divide(r.rows, lanes);
  const double products = (double)r.rows * (double)p->step->in[1]->elements;
  const int64_t runs = ert_min64(ert_pieces(bands, products, p->workers), blocks);
  ERT_TRY(ert_state(p, sizeof *s + (size_t)runs * sizeof *s->ends, (void **)&s));
  s->r = r;
  s->simd = p->simd;
  s->tiles = ert_ceil_divide(r.depth, TILE);
  s->blocks = blocks;
  s->together = together;
  s->deep = deep;
  s->lanes = lanes;
  s->bands = bands;
  s->runs = runs;
  s->counts = p->step->in[3]->data;
  s->counts_tile = ert_stride(p->step->in[3], 0);
  s->starts_tile = ert_stride(p->step->in[4], 0);
  ert_cut_by_work(blocks, runs, work_of, s, s->ends);
  int64_t longest = 0; /* blocks of a run */
  for (int64_t run = 0; run < runs; run++)
    longest = ert_max64(longest, s->ends[run] - (run > 0 ? s->ends[run - 1] : 0));
  size_t floats;
  if (!ert_multiply((size_t)s->lanes, (size_t)(longest * BLOCK + r.depth), &floats) ||
      !ert_multiply(floats, sizeof(float), &p->step->scratch_bytes))
    return ert_reject(p, "inputs of a row", "fewer", "%lld", (long long)r.depth);
  p->step->tasks = s->bands * s->runs;
  return EDGERT_OK;
}

/* ---- run ---- */

/* Rows [row, row + rows) of x as [depth][lanes]. */
static void copy_band(const ert_step *step, int64_t row, int64_t rows, float *copy) {
  const sparse_state *s = step->state;
  const int64_t lanes = s->lanes, depth = s->r.depth;
  ert_cursor c;
  if (rows < lanes) memset(copy, 0, (size_t)(depth * lanes) * sizeof(float));
  ert_walk_seek(&s->r.walk, row, &c);
  for (int64_t r = 0, n; r < rows; r += n, ert_walk_advance(&s->r.walk, &c, n)) {
    const float *x = (const float *)step->in[0]->data + c.offset[0];
    n = ert_min64(ert_walk_left(&s->r.walk, &c), rows - r);
    if (lanes == 1)
      memcpy(copy, x, (size_t)depth * sizeof(float));
    else
      ert_transpose(copy + r, lanes, x, s->r.walk.stride[0][s->r.walk.rank - 1], depth, n, sizeof(float));
  }
}

/* Columns [first, first + columns) of the sums of a band, finished. */
static void store_band(const ert_step *step, int64_t row, int64_t rows, int64_t first, int64_t columns,
                       const float *sums) {
  const sparse_state *s = step->state;
  ert_cursor c;
  ert_walk_seek(&s->r.walk, row, &c);
  for (int64_t r = 0, n; r < rows; r += n, ert_walk_advance(&s->r.walk, &c, n)) {
    float *y = (float *)step->out[0]->data + c.offset[1] + first;
    const int64_t pitch = s->r.walk.stride[1][s->r.walk.rank - 1];
    n = ert_min64(ert_walk_left(&s->r.walk, &c), rows - r);
    if (s->lanes == 1)
      memcpy(y, sums, (size_t)columns * sizeof(float));
    else
      ert_transpose(y, pitch, sums + r, s->lanes, n, columns, sizeof(float));
    for (int64_t i = 0; i < n; i++) ert_linear_activate(&s->r, s->simd, y + i * pitch, columns);
  }
}

static void sparse_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const sparse_state *s = step->state;
  const float *bias = ert_linear_bias(step, &s->r);
  const char *values = step->in[1]->data;
  const uint8_t *indices = step->in[2]->data;
  const int32_t *starts = step->in[4]->data;
  const int64_t lanes = s->lanes;
  const ert_weights weights = ert_weights_of(step->in[1]);
  float *copy = scratch, *sums = copy + s->r.depth * lanes;
  int64_t copied = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t band = i / s->runs, run = i % s->runs;
    const int64_t row = band * lanes, rows = ert_min64(lanes, s->r.rows - row);
    const int64_t block = run > 0 ? s->ends[run - 1] : 0, block_end = s->ends[run];
    const int64_t first = block * BLOCK, columns = ert_min64(block_end * BLOCK, s->r.columns) - first;
    if (copied != band) copy_band(step, row, rows, copy);
    copied = band;
    for (int64_t k = 0; k < columns; k++)
      for (int64_t l = 0; l < lanes; l++) sums[k * lanes + l] = bias ? bias[first + k] : 0;
    for (int64_t t = 0; t < s->tiles; t++)
      for (int64_t b = block; b < block_end; b++) {
        const int32_t start = starts[t * s->starts_tile + b];
        const ert_sparse_matrix columns_of = {
            .x = copy + t * TILE * lanes,
            .lanes = (size_t)lanes,
            .together = (size_t)s->together,
            .deep = (size_t)s->deep,
            .values = values + start * s->together * s->deep * ert_weights_bytes(weights),
            .weights = weights,
            .indices = indices + start,
            .counts = s->counts + t * s->counts_tile + b * BLOCK / s->together,
            .columns = (size_t)ert_min64(BLOCK, s->r.columns - b * BLOCK),
            .y = sums + (b * BLOCK - first) * lanes,
        };
        s->simd->sparse_matrix(&columns_of);
      }
    store_band(step, row, rows, first, columns, sums);
  }
}

const ert_kernel ert_kernel_linear_sparse = {
    .name = "linear_sparse",
    .prepare = sparse_prepare,
    .prove = sparse_prove,
    .run = sparse_run,
    .views = true,
    .reduced = true,
};
