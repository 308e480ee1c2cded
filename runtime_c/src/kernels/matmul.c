/* matmul: batches of planar matrices times planar matrices, plus a broadcast bias and activation; float32 or integers. */
#include <string.h>

#include "base/checked.h"
#include "kernels/gemm.h"
#include "kernels/matmul_shape.h"
#include "kernels/partition.h"
#include "kernels/rows.h"

/* A task computes, for one batch, a band of rows by a run of blocks of 16 columns. */
typedef struct matmul_state {
  ert_matmul_shape shape;
  ert_finish finish;
  const ert_simd *simd; /* NULL for integers */
  int64_t blocks, unit, group, bands, runs;
} matmul_state;

static bool is_integer(uint8_t dtype) {
  return dtype == EDGERT_I32 || dtype == EDGERT_I64 || dtype == EDGERT_U32 || dtype == EDGERT_U64;
}

static edgert_status matmul_prove(const ert_prepare *p, ert_activation *activation, ert_matmul_shape *shape) {
  ERT_TRY(ert_expect_operands(p, 2, 3, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *a = p->step->in[0], *b = p->step->in[1], *y = p->step->out[0];
  const ert_tensor *bias = p->step->n_in > 2 ? p->step->in[2] : NULL;
  if (a->dtype != EDGERT_F32 && !is_integer(a->dtype))
    return ert_reject(p, "element type", "f32, i32, i64, u32 or u64", "%d", a->dtype);
  ERT_TRY(ert_expect_dtype(p, b, (edgert_dtype)a->dtype));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)a->dtype));
  if (bias) ERT_TRY(ert_expect_dtype(p, bias, (edgert_dtype)a->dtype));
  ERT_TRY(ert_activation_read(p, activation));
  if (a->dtype != EDGERT_F32 && activation->kind != ERT_UNARY_IDENTITY)
    return ert_reject(p, "activation of integers", "none", "%s", ert_unary_names[activation->kind]);
  return ert_matmul_shape_read(p, a, b, bias, y, shape);
}

/* Tasks: batches, and if those cannot be shared evenly, runs of columns or bands of rows. */
static void matmul_cut(matmul_state *s, int64_t workers) {
  const ert_matmul_shape *m = &s->shape;
  const double products = (double)m->batches * (double)m->rows * (double)m->depth * (double)m->columns;
  const int64_t pieces = ert_pieces(m->batches, products, workers), units = ert_ceil_divide(s->blocks, s->unit);
  s->bands = s->runs = 1;
  if (ert_unevenness(units, pieces) <= ert_unevenness(m->rows, pieces))
    s->runs = ert_min64(pieces, units);
  else
    s->bands = ert_min64(pieces, m->rows);
}

static edgert_status matmul_prepare(ert_prepare *p) {
  ert_activation activation;
  ert_matmul_shape shape;
  ERT_TRY(matmul_prove(p, &activation, &shape));
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  matmul_state *s;
  ERT_TRY(ert_state(p, sizeof *s, (void **)&s));
  s->shape = shape;
  s->finish = ert_finish_of(activation);
  s->blocks = ert_ceil_divide(shape.columns, 16);
  s->group = ert_gemm_group(shape.rows, shape.depth, shape.columns);
  s->unit = ert_gemm_unit(shape.rows);
  matmul_cut(s, p->workers);
  p->step->tasks = shape.batches * s->bands * s->runs;
  if (p->step->in[0]->dtype != EDGERT_F32) return EDGERT_OK;
  s->simd = p->simd;
  size_t scratch;
  if (!ert_gemm_scratch(ert_ceil_divide(shape.rows, s->bands), shape.depth, shape.a_row, s->group, &scratch))
    return ert_reject(p, "packed columns of the second operand", "fewer bytes than memory can have", "more");
  p->step->scratch_bytes = scratch * sizeof(float);
  return EDGERT_OK;
}

/* What one task computes. */
typedef struct matmul_task {
  int64_t batch, row, rows, column, columns;
} matmul_task;

static matmul_task matmul_task_at(const matmul_state *s, int64_t task) {
  const int64_t units = ert_ceil_divide(s->blocks, s->unit), run = task % s->runs, band = task / s->runs % s->bands;
  matmul_task t = {.batch = task / s->runs / s->bands, .row = ert_cut_at(s->shape.rows, s->bands, band)};
  t.rows = ert_cut_at(s->shape.rows, s->bands, band + 1) - t.row;
  t.column = ert_cut_at(units, s->runs, run) * s->unit * 16;
  t.columns = ert_min64(ert_cut_at(units, s->runs, run + 1) * s->unit * 16, s->shape.columns) - t.column;
  return t;
}

/* The bias of a task's outputs, broadcast into y: along a row it is one value, or one for each column. */
#define SPREAD_BIAS(type)                                                                                           \
  {                                                                                                                 \
    const type *from = bias->data;                                                                                  \
    from += ert_batch_at(&m->batch, m->bias_strides, t->batch) + t->row * m->bias_row + t->column * m->bias_column; \
    type *to = y;                                                                                                   \
    for (int64_t r = 0; r < t->rows; r++, to += m->y_row, from += m->bias_row) {                                    \
      if (m->bias_column == 1) {                                                                                    \
        memcpy(to, from, (size_t)t->columns * sizeof *to);                                                          \
        continue;                                                                                                   \
      }                                                                                                             \
      for (int64_t c = 0; c < t->columns; c++) to[c] = *from;                                                       \
    }                                                                                                               \
  }

static void spread_bias(const ert_matmul_shape *m, const matmul_task *t, const ert_tensor *bias, void *y) {
  if (ert_dtype_bytes(bias->dtype) == 4)
    SPREAD_BIAS(ert_bits32)
  else
    SPREAD_BIAS(ert_bits64)
}

static void run_floats(const ert_step *step, const matmul_task *t, float *scratch) {
  const matmul_state *s = step->state;
  const ert_matmul_shape *m = &s->shape;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL;
  const float *a =
      (const float *)step->in[0]->data + ert_batch_at(&m->batch, m->a_strides, t->batch) + t->row * m->a_row;
  const float *b = (const float *)step->in[1]->data + ert_batch_at(&m->batch, m->b_strides, t->batch) + t->column;
  float *y =
      (float *)step->out[0]->data + ert_batch_at(&m->batch, m->y_strides, t->batch) + t->row * m->y_row + t->column;
  if (bias) spread_bias(m, t, bias, y);
  const ert_gemm product = {
      .a = a,
      .a_pitch = m->a_row,
      .b = b,
      .b_pitch = m->b_row,
      .y = y,
      .y_pitch = m->y_row,
      .rows = t->rows,
      .depth = m->depth,
      .columns = t->columns,
      .group = s->group,
      .add = bias != NULL,
      .dots = true,
  };
  ert_gemm_run(s->simd, &product, &s->finish, scratch);
}

/* Integers wrap around, so that signed and unsigned ones are the same. */
#define RUN_INTEGERS(type)                                                                \
  {                                                                                       \
    const type *a = step->in[0]->data, *b = step->in[1]->data;                            \
    a += ert_batch_at(&m->batch, m->a_strides, t->batch) + t->row * m->a_row;             \
    b += ert_batch_at(&m->batch, m->b_strides, t->batch) + t->column;                     \
    type *y = step->out[0]->data;                                                         \
    y += ert_batch_at(&m->batch, m->y_strides, t->batch) + t->row * m->y_row + t->column; \
    if (bias) spread_bias(m, t, bias, y);                                                 \
    const int64_t depth = m->depth, columns = t->columns, b_row = m->b_row;               \
    for (int64_t r = 0; r < t->rows; r++, a += m->a_row, y += m->y_row) {                 \
      if (!bias) memset(y, 0, (size_t)columns * sizeof *y);                               \
      for (int64_t k = 0; k < depth; k++)                                                 \
        for (int64_t c = 0; c < columns; c++) y[c] += a[k] * b[k * b_row + c];            \
    }                                                                                     \
  }

static void run_integers(const ert_step *step, const matmul_task *t) {
  const matmul_state *s = step->state;
  const ert_matmul_shape *m = &s->shape;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL;
  if (ert_dtype_bytes(step->in[0]->dtype) == 4)
    RUN_INTEGERS(ert_bits32)
  else
    RUN_INTEGERS(ert_bits64)
}

static void matmul_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const matmul_state *s = step->state;
  for (int64_t i = begin; i < end; i++) {
    const matmul_task t = matmul_task_at(s, i);
    if (s->simd)
      run_floats(step, &t, scratch);
    else
      run_integers(step, &t);
  }
}

const ert_kernel ert_kernel_matmul = {.name = "matmul", .prepare = matmul_prepare, .run = matmul_run, .views = true};
