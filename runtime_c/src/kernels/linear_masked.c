/* linear_masked: rows of a planar input times a constant matrix that has a bit for every weight, and values of those that
 * are not zero, plus bias and activation. */
#include <string.h>

#include "kernels/activation.h"
#include "kernels/partition.h"
#include "kernels/walk.h"
#include "kernels/weights.h"

enum {
  COLUMNS = 4, /* of a block, which has one start */
  GROUP = 16,  /* inputs of a mask */
  LANES = 4,   /* rows that are computed together */
};

/* A task computes a band of `lanes` rows by a run of blocks of columns. */
typedef struct masked_state {
  ert_activation activation;
  const ert_simd *simd;
  ert_walk walk; /* over the first elements of the rows of x and y */
  int64_t rows, depth, columns, blocks;
  int64_t lanes, bands, runs;
  int64_t masks_block, masks_group; /* masks between blocks, and between groups of inputs */
} masked_state;

static edgert_status masked_prove(const ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 4, 5, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *values = p->step->in[1], *masks = p->step->in[2], *starts = p->step->in[3];
  const ert_tensor *y = p->step->out[0], *bias = p->step->n_in > 4 ? p->step->in[4] : NULL;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  if (!ert_dtype_reduced(values->dtype)) ERT_TRY(ert_expect_dtype(p, values, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, masks, EDGERT_U16));
  ERT_TRY(ert_expect_dtype(p, starts, EDGERT_I32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (x->rank < 1 || y->rank < 1) return ert_reject(p, "rank of the input", "at least 1", "0");
  int64_t y_shape[ERT_MAX_RANK];
  memcpy(y_shape, x->shape, sizeof y_shape);
  const int64_t columns = y->shape[y->rank - 1], blocks = ert_ceil_divide(columns, COLUMNS);
  y_shape[x->rank - 1] = columns;
  ERT_TRY(ert_expect_shape(p, y, x->rank, y_shape));
  if (!values->constant || !values->compact) return ert_reject(p, "non-zeros", "a constant, no part of one", "others");
  if (!masks->constant || !starts->constant) return ert_reject(p, "masks and starts", "constants", "others");
  ERT_TRY(ert_expect_shape(p, values, 1, &values->shape[0]));
  const int64_t groups = ert_ceil_divide(x->shape[x->rank - 1], GROUP);
  ERT_TRY(ert_expect_shape(p, masks, 3, (const int64_t[]){blocks, groups, COLUMNS}));
  ERT_TRY(ert_expect_shape(p, starts, 1, &blocks));
  if (!bias) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
  return ert_expect_shape(p, bias, 1, &columns);
}

/* Behind every start there are values for all bits that masks may have: these need not be read. As many as a vector holds
 * are read at once, and at most as many of them used, so that no vector ends behind those either. */
static edgert_status masked_prove_starts(const ert_prepare *p, const masked_state *s) {
  const int32_t *starts = p->step->in[3]->data;
  const int64_t values = p->step->in[1]->elements, most = ert_ceil_divide(s->depth, GROUP) * GROUP * COLUMNS;
  for (int64_t b = 0; b < s->blocks; b++)
    if (starts[b] < 0 || starts[b] > values - most)
      return ert_reject(p, "start of a block of columns", "values for all bits behind it", "%lld, of %lld values",
                        (long long)starts[b], (long long)values);
  return EDGERT_OK;
}

static edgert_status masked_prepare(ert_prepare *p) {
  ert_activation activation;
  ERT_TRY(masked_prove(p));
  ERT_TRY(ert_activation_read(p, &activation));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  if (y->elements == 0) return EDGERT_OK;
  masked_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->activation = activation;
  s->simd = p->simd;
  s->depth = x->shape[x->rank - 1];
  s->columns = y->shape[y->rank - 1];
  s->rows = y->elements / s->columns;
  s->blocks = ert_ceil_divide(s->columns, COLUMNS);
  s->lanes = s->rows == 1 ? 1 : LANES;
  s->bands = ert_ceil_divide(s->rows, s->lanes);
  const double products = (double)s->rows * (double)s->depth * (double)s->columns;
  s->runs = ert_min64(ert_pieces(s->bands, products, p->workers), s->blocks);
  s->masks_block = ert_stride(p->step->in[2], 0);
  s->masks_group = ert_stride(p->step->in[2], 1);
  ERT_TRY(masked_prove_starts(p, s));
  s->walk.operands = 2;
  for (int i = 0; i < x->rank - 1; i++)
    ert_walk_push(&s->walk, x->shape[i], (const int64_t[]){ert_stride(x, i), ert_stride(y, i)});
  ert_walk_merge(&s->walk, 0);
  p->step->tasks = s->bands * s->runs;
  return EDGERT_OK;
}

/* ---- run ---- */

/* Where rows [row, row + rows) of x and y lie; those that a band lacks are the last one once more. */
static void masked_rows(const ert_step *step, int64_t row, int64_t rows, const float **x, float **y) {
  const masked_state *s = step->state;
  ert_cursor c;
  ert_walk_seek(&s->walk, row, &c);
  for (int64_t r = 0; r < s->lanes; r++) {
    x[r] = (const float *)step->in[0]->data + c.offset[0];
    y[r] = (float *)step->out[0]->data + c.offset[1];
    if (r < rows - 1) ert_walk_advance(&s->walk, &c, 1);
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
  const ert_activation *a = &s->activation;
  const float *bias = step->n_in > 4 && step->in[4] ? step->in[4]->data : NULL;
  const char *values = step->in[1]->data;
  const uint16_t *masks = step->in[2]->data;
  const int32_t *starts = step->in[3]->data;
  const ert_weights weights = ert_weights_of(step->in[1]);
  ert_masked m = {.lanes = (size_t)s->lanes, .depth = (size_t)s->depth, .weights = weights, .group = s->masks_group};
  for (int64_t i = begin; i < end; i++) {
    const int64_t band = i / s->runs, run = i % s->runs;
    const int64_t row = band * s->lanes, rows = ert_min64(s->lanes, s->rows - row);
    const int64_t first = ert_cut_at(s->blocks, s->runs, run), last = ert_cut_at(s->blocks, s->runs, run + 1);
    float *y[LANES];
    masked_rows(step, row, rows, m.x, y);
    for (int64_t b = first; b < last; b++) {
      const int64_t column = b * COLUMNS, columns = ert_min64(COLUMNS, s->columns - column);
      m.values = values + starts[b] * ert_weights_bytes(weights);
      m.masks = masks + b * s->masks_block;
      memset(m.sums, 0, sizeof m.sums);
      for (int64_t r = 0; bias && r < rows; r++) copy_columns(m.sums[r], bias + column, columns);
      s->simd->masked(&m);
      for (int64_t r = 0; r < rows; r++) copy_columns(y[r] + column, m.sums[r], columns);
    }
    const int64_t column = first * COLUMNS, columns = ert_min64(last * COLUMNS, s->columns) - column;
    for (int64_t r = 0; r < rows && a->kind != ERT_UNARY_IDENTITY; r++)
      s->simd->unary(a->kind, a->alpha, a->beta, y[r] + column, y[r] + column, (size_t)columns);
  }
}

const ert_kernel ert_kernel_linear_masked = {
    .name = "linear_masked", .prepare = masked_prepare, .run = masked_run, .views = true, .reduced = true};
