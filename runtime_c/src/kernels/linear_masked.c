/* linear_masked: rows of a planar input times a constant matrix that has a bit for every weight, and values of those that
 * are not zero, plus bias and activation. */
#include <string.h>

#include "kernels/linear_rows.h"
#include "kernels/partition.h"
#include "kernels/weights.h"

enum {
  COLUMNS = 4, /* of a block, which has one start */
  GROUP = 16,  /* inputs of a mask */
  LANES = 4,   /* rows that are computed together */
};

/* A task computes a band of `lanes` rows by a run of blocks of columns. */
typedef struct masked_state {
  ert_linear_rows r;
  const ert_simd *simd;
  int64_t blocks;
  int64_t lanes, bands, runs;
  int64_t masks_block, masks_group; /* masks between blocks, and between groups of inputs */
} masked_state;

static edgert_status masked_prove(const ert_prepare *p, const ert_linear_rows *r) {
  const ert_tensor *values = p->step->in[1], *masks = p->step->in[2], *starts = p->step->in[3];
  const int64_t blocks = ert_ceil_divide(r->columns, COLUMNS), groups = ert_ceil_divide(r->depth, GROUP);
  if (!ert_dtype_reduced(values->dtype)) ERT_TRY(ert_expect_dtype(p, values, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, masks, EDGERT_U16));
  ERT_TRY(ert_expect_dtype(p, starts, EDGERT_I32));
  if (!values->constant || !values->compact) return ert_reject(p, "non-zeros", "a constant, no part of one", "others");
  if (!masks->constant || !starts->constant) return ert_reject(p, "masks and starts", "constants", "others");
  ERT_TRY(ert_expect_shape(p, values, 1, &values->shape[0]));
  ERT_TRY(ert_expect_shape(p, masks, 3, (const int64_t[]){blocks, groups, COLUMNS}));
  return ert_expect_shape(p, starts, 1, &blocks);
}

/* Behind every start there are values for all bits that masks may have: these need not be read. As many as a vector holds
 * are read at once, and at most as many of them used, so that no vector ends behind those either. */
static edgert_status masked_prove_starts(const ert_prepare *p, const masked_state *s) {
  const int32_t *starts = p->step->in[3]->data;
  const int64_t values = p->step->in[1]->elements, most = ert_ceil_divide(s->r.depth, GROUP) * GROUP * COLUMNS;
  for (int64_t b = 0; b < s->blocks; b++)
    if (starts[b] < 0 || starts[b] > values - most)
      return ert_reject(p, "start of a block of columns", "values for all bits behind it", "%lld, of %lld values",
                        (long long)starts[b], (long long)values);
  return EDGERT_OK;
}

static edgert_status masked_prepare(ert_prepare *p) {
  ert_linear_rows r;
  ERT_TRY(ert_linear_rows_read(p, 3, &r));
  ERT_TRY(masked_prove(p, &r));
  if (r.rows == 0) return EDGERT_OK;
  masked_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->r = r;
  s->simd = p->simd;
  s->blocks = ert_ceil_divide(r.columns, COLUMNS);
  s->lanes = r.rows == 1 ? 1 : LANES;
  s->bands = ert_ceil_divide(r.rows, s->lanes);
  const double products = (double)r.rows * (double)r.depth * (double)r.columns;
  s->runs = ert_min64(ert_pieces(s->bands, products, p->workers), s->blocks);
  s->masks_block = ert_stride(p->step->in[2], 0);
  s->masks_group = ert_stride(p->step->in[2], 1);
  ERT_TRY(masked_prove_starts(p, s));
  p->step->tasks = s->bands * s->runs;
  return EDGERT_OK;
}

/* ---- run ---- */

/* Where rows [row, row + rows) of x and y lie; those that a band lacks are the last one once more. */
static void masked_rows(const ert_step *step, int64_t row, int64_t rows, const float **x, float **y) {
  const masked_state *s = step->state;
  ert_cursor c;
  ert_walk_seek(&s->r.walk, row, &c);
  for (int64_t r = 0; r < s->lanes; r++) {
    x[r] = (const float *)step->in[0]->data + c.offset[0];
    y[r] = (float *)step->out[0]->data + c.offset[1];
    if (r < rows - 1) ert_walk_advance(&s->r.walk, &c, 1);
  }
}

/* Those of a block, mostly all. */
static void copy_columns(float *to, const float *from, int64_t columns) {
  if (columns == COLUMNS)
    memcpy(to, from, COLUMNS * sizeof(float));
  else
    memcpy(to, from, (size_t)columns * sizeof(float));
}

static void masked_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin == end) return; /* an empty output has no state */
  const masked_state *s = step->state;
  const float *bias = ert_linear_bias(step, &s->r);
  const char *values = step->in[1]->data;
  const uint16_t *masks = step->in[2]->data;
  const int32_t *starts = step->in[3]->data;
  const ert_weights weights = ert_weights_of(step->in[1]);
  ert_masked m = {.lanes = (size_t)s->lanes, .depth = (size_t)s->r.depth, .weights = weights, .group = s->masks_group};
  for (int64_t i = begin; i < end; i++) {
    const int64_t band = i / s->runs, run = i % s->runs;
    const int64_t row = band * s->lanes, rows = ert_min64(s->lanes, s->r.rows - row);
    const int64_t first = ert_cut_at(s->blocks, s->runs, run), last = ert_cut_at(s->blocks, s->runs, run + 1);
    float *y[LANES];
    masked_rows(step, row, rows, m.x, y);
    for (int64_t b = first; b < last; b++) {
      const int64_t column = b * COLUMNS, columns = ert_min64(COLUMNS, s->r.columns - column);
      m.values = values + starts[b] * ert_weights_bytes(weights);
      m.masks = masks + b * s->masks_block;
      memset(m.sums, 0, sizeof m.sums);
      for (int64_t r = 0; bias && r < rows; r++) copy_columns(m.sums[r], bias + column, columns);
      s->simd->masked(&m);
      for (int64_t r = 0; r < rows; r++) copy_columns(y[r] + column, m.sums[r], columns);
    }
    const int64_t column = first * COLUMNS, columns = ert_min64(last * COLUMNS, s->r.columns) - column;
    for (int64_t r = 0; r < rows; r++) ert_linear_activate(&s->r, s->simd, y[r] + column, columns);
  }
}

const ert_kernel ert_kernel_linear_masked = {
    .name = "linear_masked", .prepare = masked_prepare, .run = masked_run, .views = true, .reduced = true};
