/* attention: softmax(scale * q k^T + mask) v, bands of rows at a time, whose scores stay in the second-level cache. */
#include <string.h>

#include "base/checked.h"
#include "kernels/dense_rows.h"
#include "kernels/matmul_shape.h"
#include "kernels/partition.h"
#include "kernels/rows.h"
#include "kernels/transpose.h"

/* The matrices of an operand, in elements: stored in any order of dimensions, and broadcast where a stride is 0. */
typedef struct matrices {
  int64_t batch[ERT_MAX_RANK];
  int64_t row, column;
} matrices;

/* A task computes a band of rows of a batch. */
typedef struct attention_state {
  const ert_simd *simd;
  ert_batches batch;
  int64_t batches, bands;
  int64_t rows, depth, keys, columns;
  matrices q, k, v, y, mask;
  float scale;
  int64_t zeroed;               /* whether rows of weights that are no numbers become zeros */
  int64_t packed_k, packed_v;   /* floats of a batch's k^T and v in scratch, in blocks of 16 columns */
  int64_t q_pitch, score_pitch; /* between a band's rows and scores in scratch */
  int64_t band_rows;            /* at most */
} attention_state;

enum {
  BAND_FLOATS = 64 * 1024, /* scores of a band stay in the second-level cache */
  LEAST_ROWS = 14,
};

/* ---- proof ---- */

/* An operand's dimensions in the order that an attribute tells: of batches, rows and columns. */
typedef struct seen {
  const int64_t *axes;
  int64_t shape[ERT_MAX_RANK];
} seen;

static edgert_status read_order(const ert_prepare *p, const char *name, const ert_tensor *t, int rank, seen *found,
                                matrices *m) {
  ERT_TRY(ert_expect_dtype(p, t, EDGERT_F32));
  if (t->rank != rank) return ert_reject(p, "rank of an operand", "that of the first", "%d", t->rank);
  ERT_TRY(ert_ints(p, name, (uint32_t)rank, 0, rank - 1, &found->axes));
  uint32_t named = 0;
  int64_t stride[ERT_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    const int axis = (int)found->axes[i];
    named |= 1u << axis;
    found->shape[i] = t->shape[axis];
    stride[i] = ert_stride(t, axis);
  }
  if (named != (1u << rank) - 1) return ert_reject(p, name, "every dimension once", "one of them twice");
  for (int i = 0; i < rank - 2; i++) m->batch[i] = found->shape[i] == 1 ? 0 : stride[i];
  m->row = stride[rank - 2];
  m->column = stride[rank - 1];
  return EDGERT_OK;
}

/* That an operand is seen with these extents. */
static edgert_status expect_seen(const ert_prepare *p, const ert_tensor *t, const seen *found, const int64_t *shape) {
  int64_t stored[ERT_MAX_RANK];
  for (int i = 0; i < t->rank; i++) stored[found->axes[i]] = shape[i];
  return ert_expect_shape(p, t, t->rank, stored);
}

/* The mask is aligned with the last dimensions of the scores. */
static edgert_status read_mask(const ert_prepare *p, const ert_tensor *mask, attention_state *s) {
  const int rank = s->batch.rank + 2;
  int64_t scores[ERT_MAX_RANK], stride[ERT_MAX_RANK] = {0};
  memcpy(scores, s->batch.extent, sizeof scores);
  scores[rank - 2] = s->rows, scores[rank - 1] = s->keys;
  ERT_TRY(ert_expect_dtype(p, mask, EDGERT_F32));
  if (mask->rank > rank) return ert_reject(p, "rank of the mask", "at most that of the scores", "%d", mask->rank);
  for (int i = rank - 1, from = mask->rank - 1; from >= 0; i--, from--) {
    if (mask->shape[from] == 1) continue;
    if (mask->shape[from] != scores[i])
      return ert_reject(p, "shape of the mask", "one that broadcasts to the scores", "another");
    stride[i] = ert_stride(mask, from);
  }
  memcpy(s->mask.batch, stride, sizeof stride);
  s->mask.row = stride[rank - 2];
  s->mask.column = stride[rank - 1];
  return EDGERT_OK;
}

static edgert_status read_operands(const ert_prepare *p, attention_state *s) {
  const ert_tensor *q = p->step->in[0], *k = p->step->in[1], *v = p->step->in[2], *y = p->step->out[0];
  const int rank = q->rank, row = rank - 2, column = rank - 1;
  if (rank < 2) return ert_reject(p, "rank of the first operand", "at least 2", "%d", rank);
  seen queries, keys, values, sums;
  ERT_TRY(read_order(p, "q_axes", q, rank, &queries, &s->q));
  ERT_TRY(read_order(p, "k_axes", k, rank, &keys, &s->k));
  ERT_TRY(read_order(p, "v_axes", v, rank, &values, &s->v));
  ERT_TRY(read_order(p, "y_axes", y, rank, &sums, &s->y));
  s->rows = queries.shape[row], s->depth = queries.shape[column];
  s->keys = keys.shape[row], s->columns = values.shape[column];
  keys.shape[column] = s->depth, values.shape[row] = s->keys;
  ERT_TRY(expect_seen(p, k, &keys, keys.shape));
  ERT_TRY(expect_seen(p, v, &values, values.shape));
  if (s->keys == 0) return ert_reject(p, "rows of the keys", "at least one", "none");
  s->batch = (ert_batches){row, {1, 1, 1, 1, 1, 1, 1, 1}};
  if (!ert_batches_broadcast(&s->batch, queries.shape, row) || !ert_batches_broadcast(&s->batch, keys.shape, row) ||
      !ert_batches_broadcast(&s->batch, values.shape, row))
    return ert_reject(p, "batch dimensions", "ones that broadcast together", "others");
  memcpy(sums.shape, s->batch.extent, sizeof sums.shape);
  sums.shape[row] = s->rows, sums.shape[column] = s->columns;
  ERT_TRY(expect_seen(p, y, &sums, sums.shape));
  return p->step->n_in > 3 && p->step->in[3] ? read_mask(p, p->step->in[3], s) : EDGERT_OK;
}

/* Bands whose scores stay in the cache, and as many more as it takes to share them out. */
static void attention_cut(attention_state *s, int64_t workers) {
  const int64_t fitting = ert_max64(BAND_FLOATS / s->score_pitch / LEAST_ROWS, 1) * LEAST_ROWS;
  const double products = (double)s->batches * (double)s->rows * (double)s->keys * (double)(s->depth + s->columns);
  s->bands = ert_ceil_divide(s->rows, fitting);
  s->bands = ert_min64(s->bands * ert_pieces(s->batches * s->bands, products, workers), s->rows);
  s->band_rows = ert_ceil_divide(s->rows, s->bands);
}

static edgert_status attention_prepare(ert_prepare *p) {
  attention_state read = {.simd = p->simd}, *s;
  ERT_TRY(ert_expect_operands(p, 3, 4, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  ERT_TRY(ert_float_or(p, "scale", 1.0f, &read.scale));
  ERT_TRY(ert_int_or(p, "zeroed", 0, 1, 0, &read.zeroed));
  ERT_TRY(read_operands(p, &read));
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  read.batches = 1;
  for (int i = 0; i < read.batch.rank; i++) read.batches *= read.batch.extent[i];
  read.q_pitch = ert_spread_pitch(read.depth);
  read.score_pitch = ert_spread_pitch(read.keys);
  attention_cut(&read, p->workers);
  const size_t wide = (size_t)ert_ceil_divide(read.columns, 16) * 16;
  const size_t row = (size_t)read.q_pitch + (size_t)read.score_pitch + wide;
  size_t packed_k, packed_v, band, floats;
  if (!ert_multiply((size_t)ert_ceil_divide(read.keys, 16) * 16, (size_t)read.depth, &packed_k) ||
      !ert_multiply(wide, (size_t)read.keys, &packed_v) || !ert_multiply((size_t)read.band_rows, row, &band) ||
      !ert_add(packed_k, packed_v, &floats) || !ert_add(floats, band, &floats) || floats > SIZE_MAX / 16)
    return ert_reject(p, "scores and packed operands", "fewer bytes than memory can have", "more");
  read.packed_k = (int64_t)packed_k;
  read.packed_v = (int64_t)packed_v;
  *s = read;
  p->step->scratch_bytes = floats * sizeof(float);
  p->step->tasks = s->batches * s->bands;
  return EDGERT_OK;
}

/* ---- work ---- */

/* Rows of q times the scale, on their way to scratch. */
static void scale_rows(const attention_state *s, const float *q, int64_t rows, float *to) {
  const int64_t depth = s->depth, column = s->q.column;
  if (column == 1)
    ert_copy_rows(to, s->q_pitch * 4, q, s->q.row * 4, rows, (size_t)depth * sizeof *to);
  else if (s->q.row == 1)
    ert_transpose(to, s->q_pitch, q, column, rows, depth, sizeof *to);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < depth; c++) to[r * s->q_pitch + c] = q[r * s->q.row + c * column];
  for (int64_t r = 0; r < rows && s->scale != 1.0f; r++, to += s->q_pitch)
    for (int64_t c = 0; c < depth; c++) to[c] *= s->scale;
}

static void spread_mask(const attention_state *s, const float *mask, int64_t rows, float *to) {
  const int64_t keys = s->keys, column = s->mask.column;
  for (int64_t r = 0; r < rows; r++, mask += s->mask.row, to += s->score_pitch) {
    if (column == 1)
      memcpy(to, mask, (size_t)keys * sizeof *to);
    else
      for (int64_t c = 0; c < keys; c++) to[c] = mask[c * column];
    memset(to + keys, 0, (size_t)(s->score_pitch - keys) * sizeof *to);
  }
}

/* Rows [row, row + rows) of a batch, whose keys and values are packed at `scratch`. */
static void attention_band(const ert_step *step, int64_t batch, int64_t row, int64_t rows, float *scratch) {
  const attention_state *s = step->state;
  const ert_finish none = {.lo = -INFINITY, .hi = INFINITY};
  float *k = scratch, *v = k + s->packed_k, *q = v + s->packed_v, *scores = q + s->band_rows * s->q_pitch;
  float *wide = scores + s->band_rows * s->score_pitch;
  scale_rows(s, (const float *)step->in[0]->data + ert_batch_at(&s->batch, s->q.batch, batch) + row * s->q.row, rows,
             q);
  const bool masked = step->n_in > 3 && step->in[3];
  if (masked)
    spread_mask(s, (const float *)step->in[3]->data + ert_batch_at(&s->batch, s->mask.batch, batch) + row * s->mask.row,
                rows, scores);
  const ert_dense_rows products = {
      .x = q,
      .x_pitch = s->q_pitch,
      .w = k,
      .w_block = s->depth * 16,
      .y = scores,
      .y_pitch = s->score_pitch,
      .rows = rows,
      .depth = s->depth,
      .columns = ert_ceil_divide(s->keys, 16) * 16,
      .add = masked,
  };
  ert_dense_rows_run(s->simd, &products, &none, NULL);
  s->simd->softmax_rows(false, scores, s->score_pitch, scores, s->score_pitch, (size_t)s->keys, (size_t)rows);
  for (int64_t r = 0; r < rows && s->zeroed; r++) { /* if one of a row is no number, none is, since their sum is not */
    float *weights = scores + r * s->score_pitch;
    if (weights[0] != weights[0]) memset(weights, 0, (size_t)s->keys * sizeof *weights);
  }
  float *y = (float *)step->out[0]->data + ert_batch_at(&s->batch, s->y.batch, batch) + row * s->y.row;
  const bool in_rows = s->y.column == 1;
  const ert_dense_rows sums = {
      .x = scores,
      .x_pitch = s->score_pitch,
      .w = v,
      .w_block = s->keys * 16,
      .y = in_rows ? y : wide,
      .y_pitch = in_rows ? s->y.row : ert_ceil_divide(s->columns, 16) * 16,
      .rows = rows,
      .depth = s->keys,
      .columns = in_rows ? s->columns : ert_ceil_divide(s->columns, 16) * 16,
  };
  ert_dense_rows_run(s->simd, &sums, &none, wide);
  if (in_rows) return;
  if (s->y.row == 1)
    ert_transpose(y, s->y.column, wide, sums.y_pitch, s->columns, rows, sizeof *y);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < s->columns; c++) y[r * s->y.row + c * s->y.column] = wide[r * sums.y_pitch + c];
}

static void attention_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const attention_state *s = step->state;
  float *k = scratch, *v = k + s->packed_k;
  int64_t packed = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t batch = i / s->bands, band = i % s->bands;
    if (packed != batch) {
      const float *keys = (const float *)step->in[1]->data + ert_batch_at(&s->batch, s->k.batch, batch);
      const float *values = (const float *)step->in[2]->data + ert_batch_at(&s->batch, s->v.batch, batch);
      ert_dense_pack(keys, s->k.column, s->k.row, s->depth, s->keys, k);
      ert_dense_pack(values, s->v.row, s->v.column, s->keys, s->columns, v);
      packed = batch;
    }
    const int64_t row = ert_cut_at(s->rows, s->bands, band), rows = ert_cut_at(s->rows, s->bands, band + 1) - row;
    attention_band(step, batch, row, rows, scratch);
  }
}

const ert_kernel ert_kernel_attention = {
    .name = "attention", .prepare = attention_prepare, .run = attention_run, .views = true};
