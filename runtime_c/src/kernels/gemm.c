/* Products of two planar matrices. */
#include "kernels/gemm.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/partition.h"

enum { PACKED_FLOATS = 64 * 1024 }; /* of b at a time */

int64_t ert_gemm_unit(int64_t rows) { return rows <= 7 ? 4 : 2; }

int64_t ert_gemm_group(int64_t rows, int64_t depth, int64_t columns) {
  const int64_t unit = ert_gemm_unit(rows), blocks = ert_ceil_divide(columns, 16);
  return ert_min64(ert_max64(PACKED_FLOATS / 16 / ert_max64(depth, 1) / unit, 1) * unit, blocks) * 16;
}

bool ert_gemm_scratch(int64_t rows, int64_t depth, int64_t a_pitch, int64_t group, size_t *floats) {
  size_t packed, rest;
  const int64_t pitch = ert_rows_collide(rows, a_pitch) ? ert_spread_pitch(depth) : 0;
  if (!ert_multiply((size_t)group, (size_t)depth, &packed) || !ert_multiply((size_t)rows, (size_t)pitch + 16, &rest) ||
      packed > SIZE_MAX / 16 || rest > SIZE_MAX / 16)
    return false;
  *floats = packed + rest;
  return true;
}

/* A vector times the columns of b, or a's rows times one of them. */
static ert_vector_product vector_of(const ert_gemm *g, const ert_finish *finish) {
  return (ert_vector_product){.depth = (size_t)g->depth, .y = g->y, .add = g->add, .lo = finish->lo, .hi = finish->hi};
}

static void run_row(const ert_simd *simd, const ert_gemm *g, const ert_finish *finish, int64_t columns) {
  ert_vector_product v = vector_of(g, finish);
  v.x = g->a, v.matrix = g->b, v.pitch = g->b_pitch, v.outputs = (size_t)columns;
  simd->vector_columns(&v);
  ert_finish_stored(finish, simd, g->y, 1, 0, 1, 0, (size_t)columns);
}

/* `copy` is for a column that is not in one piece. */
static void run_column(const ert_simd *simd, const ert_gemm *g, const ert_finish *finish, int64_t column, float *copy) {
  const bool in_one = g->y_pitch == 1;
  ert_vector_product v = vector_of(g, finish);
  v.x = g->b + column, v.matrix = g->a, v.pitch = g->a_pitch, v.outputs = (size_t)g->rows;
  v.y += column, v.y_step = g->y_pitch;
  if (g->b_pitch != 1) {
    for (int64_t k = 0; k < g->depth; k++) copy[k] = v.x[k * g->b_pitch];
    v.x = copy;
  }
  simd->vector_rows(&v);
  ert_finish_stored(finish, simd, v.y, 1, 0, in_one ? 1 : v.outputs, g->y_pitch, in_one ? v.outputs : 1);
}

void ert_gemm_run(const ert_simd *simd, const ert_gemm *g, const ert_finish *finish, float *scratch) {
  float *tile = scratch, *packed = tile + g->rows * 16, *copy = packed + g->group * g->depth;
  const int64_t whole = g->columns - (g->dots && g->columns % 16 == 1);
  if (whole < g->columns) run_column(simd, g, finish, whole, packed);
  if (whole == 0) return;
  if (g->rows == 1 && !g->transposed) {
    run_row(simd, g, finish, whole);
    return;
  }
  const bool collide = ert_rows_collide(g->rows, g->a_pitch);
  const int64_t pitch = collide ? ert_spread_pitch(g->depth) : g->a_pitch;
  for (int64_t r = 0; collide && r < g->rows; r++)
    memcpy(copy + r * pitch, g->a + r * g->a_pitch, (size_t)g->depth * sizeof(float));
  for (int64_t column = 0; column < whole; column += g->group) {
    const int64_t columns = ert_min64(g->group, whole - column);
    if (g->transposed)
      ert_dense_pack(g->b + column * g->b_pitch, 1, g->b_pitch, g->depth, columns, packed);
    else
      ert_dense_pack(g->b + column, g->b_pitch, 1, g->depth, columns, packed);
    const ert_dense_rows d = {
        .x = collide ? copy : g->a,
        .x_pitch = pitch,
        .w = packed,
        .w_block = g->depth * 16,
        .y = g->y + column,
        .y_pitch = g->y_pitch,
        .rows = g->rows,
        .depth = g->depth,
        .columns = columns,
        .add = g->add,
    };
    ert_dense_rows_run(simd, &d, finish, tile);
  }
}
