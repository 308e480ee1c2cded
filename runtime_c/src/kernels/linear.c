/* linear: rows of a planar input times packed constant weights, plus bias and activation. */
#include <string.h>

#include "base/checked.h"
#include "kernels/dense_rows.h"
#include "kernels/partition.h"
#include "kernels/walk.h"
#include "kernels/weights.h"

/* A task computes a band of rows by a run of blocks of 16 columns. */
typedef struct linear_state {
  ert_finish finish;
  const ert_simd *simd;
  ert_walk walk; /* over the first elements of the rows of x and y */
  int64_t rows, depth, columns;
  ert_weights weights;
  int64_t w_block;      /* weights between their blocks */
  int64_t blocks, unit; /* blocks of 16 columns; runs are cut between multiples of `unit` */
  int64_t bands, runs;
  int64_t pitch;     /* of the copy of a band's rows in scratch; 0: they are read in place */
  int64_t copy_size; /* floats of that copy */
} linear_state;

enum {
  BAND_FLOATS = 128 * 1024, /* inputs of a band stay in the second-level cache */
  LEAST_ROWS = 14,
};

static edgert_status linear_prove(const ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 3, 1, 1));
  const ert_tensor *x = p->step->in[0], *w = p->step->in[1], *y = p->step->out[0];
  const ert_tensor *bias = p->step->n_in > 2 ? p->step->in[2] : NULL;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_weights(p, w));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  if (x->rank < 1) return ert_reject(p, "rank of the input", "at least 1", "0");
  const int64_t w_shape[3] = {1, w->rank == 3 ? w->shape[1] : 0, x->shape[x->rank - 1]};
  ERT_TRY(ert_expect_shape(p, w, 3, w_shape));
  int64_t y_shape[ERT_MAX_RANK];
  memcpy(y_shape, x->shape, sizeof y_shape);
  y_shape[x->rank - 1] = w->shape[1];
  ERT_TRY(ert_expect_shape(p, y, x->rank, y_shape));
  if (!bias) return EDGERT_OK;
  ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, bias, ERT_LAYOUT_BLOCK16));
  return ert_expect_shape(p, bias, 1, &w->shape[1]);
}

/* Bands that stay in the cache; then runs of columns, or else more bands, until every worker gets as much. */
static void linear_cut(linear_state *s, int64_t workers) {
  const int64_t fitting = ert_max64(BAND_FLOATS / ert_max64(s->depth, 1), LEAST_ROWS);
  s->bands = ert_ceil_divide(s->rows, fitting);
  s->runs = 1;
  const int64_t pieces = ert_pieces(s->bands, (double)s->rows * (double)s->depth * (double)s->columns, workers);
  const int64_t units = ert_ceil_divide(s->blocks, s->unit);
  if (ert_unevenness(units, pieces) <= ert_unevenness(s->rows, pieces))
    s->runs = ert_min64(pieces, units);
  else
    s->bands = ert_min64(s->bands * pieces, s->rows);
}

static edgert_status linear_prepare(ert_prepare *p) {
  ert_activation activation;
  ERT_TRY(linear_prove(p));
  ERT_TRY(ert_activation_read(p, &activation));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  if (y->elements == 0) return EDGERT_OK;
  linear_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->finish = ert_finish_of(activation);
  s->simd = p->simd;
  s->depth = x->shape[x->rank - 1];
  s->columns = y->shape[y->rank - 1];
  s->rows = y->elements / s->columns;
  s->blocks = ert_ceil_divide(s->columns, 16);
  s->unit = s->rows <= 7 ? 4 : 2;
  linear_cut(s, p->workers);
  s->weights = ert_weights_of(p->step->in[1]);
  s->w_block = p->step->in[1]->whole[2] * 16;
  s->walk.operands = 2;
  for (int i = 0; i < x->rank - 1; i++)
    ert_walk_push(&s->walk, x->shape[i], (const int64_t[]){ert_stride(x, i), ert_stride(y, i)});
  ert_walk_merge(&s->walk, 0);
  const int64_t rows = ert_ceil_divide(s->rows, s->bands);
  if (s->depth > 0 && ert_rows_collide(rows, s->walk.stride[0][s->walk.rank - 1])) {
    s->pitch = ert_spread_pitch(s->depth);
    s->copy_size = rows * s->pitch;
  }
  p->step->scratch_bytes = (size_t)(s->copy_size + rows * 16) * sizeof(float);
  p->step->tasks = s->bands * s->runs;
  return EDGERT_OK;
}

/* Rows [row, row + rows) of x by blocks of columns [block, block + columns / 16), as long as one pitch leads from row to
 * row. The rows are read from their copy if there is one. */
static void linear_band(const ert_step *step, int64_t row, int64_t rows, int64_t block, int64_t columns,
                        const float *copy, float *tile) {
  const linear_state *s = step->state;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL;
  const int last = s->walk.rank - 1;
  ert_cursor c;
  ert_walk_seek(&s->walk, row, &c);
  for (int64_t n; rows > 0; rows -= n, ert_walk_advance(&s->walk, &c, n)) {
    n = ert_min64(ert_walk_left(&s->walk, &c), rows);
    const ert_dense_rows d = {
        .x = copy ? copy : (const float *)step->in[0]->data + c.offset[0],
        .x_pitch = copy ? s->pitch : s->walk.stride[0][last],
        .w = (const char *)step->in[1]->data + block * s->w_block * ert_weights_bytes(s->weights),
        .w_block = s->w_block,
        .weights = s->weights,
        .bias = bias ? (const float *)bias->data + block * 16 : NULL,
        .y = (float *)step->out[0]->data + c.offset[1] + block * 16,
        .y_pitch = s->walk.stride[1][last],
        .rows = n,
        .depth = s->depth,
        .columns = columns,
    };
    ert_dense_rows_run(s->simd, &d, &s->finish, tile);
    if (copy) copy += n * s->pitch;
  }
}

static void copy_band(const ert_step *step, int64_t row, int64_t rows, float *copy) {
  const linear_state *s = step->state;
  ert_cursor c;
  ert_walk_seek(&s->walk, row, &c);
  for (int64_t r = 0; r < rows; r++, ert_walk_advance(&s->walk, &c, 1))
    memcpy(copy + r * s->pitch, (const float *)step->in[0]->data + c.offset[0], (size_t)s->depth * sizeof(float));
}

static void linear_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const linear_state *s = step->state;
  const int64_t units = ert_ceil_divide(s->blocks, s->unit);
  float *copy = s->pitch ? scratch : NULL, *tile = (float *)scratch + s->copy_size;
  int64_t copied = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t band = i / s->runs, run = i % s->runs;
    const int64_t row = ert_cut_at(s->rows, s->bands, band), rows = ert_cut_at(s->rows, s->bands, band + 1) - row;
    const int64_t block = ert_cut_at(units, s->runs, run) * s->unit;
    const int64_t column_end = ert_min64(ert_cut_at(units, s->runs, run + 1) * s->unit * 16, s->columns);
    if (copy && copied != band) copy_band(step, row, rows, copy);
    copied = band;
    linear_band(step, row, rows, block, column_end - block * 16, copy, tile);
  }
}

const ert_kernel ert_kernel_linear = {
    .name = "linear", .prepare = linear_prepare, .run = linear_run, .views = true, .reduced = true};
