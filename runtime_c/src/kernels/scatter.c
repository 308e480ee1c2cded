/* scatter_elements and scatter_nd: a copy of a tensor with entries replaced or combined at indices, in the indices' order. */
#include "kernels/combine.h"
#include "kernels/indices.h"
#include "kernels/rows.h"
#include "kernels/tensor.h"

/* x and updates of one type, the output like x; the reduction as a function. */
static edgert_status expect_operands(const ert_prepare *p, ert_combine *combine) {
  ERT_TRY(ert_expect_operands(p, 3, 3, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0];
  ERT_TRY(ert_expect_same_type(p, p->step->out[0], x));
  ERT_TRY(ert_expect_dtype(p, p->step->in[2], (edgert_dtype)x->dtype));
  ERT_TRY(ert_expect_indices(p, p->step->in[1]));
  int reduction;
  ERT_TRY(ert_choice(p, "reduction", ert_reduction_names, &reduction));
  *combine = ert_combine_of((ert_reduction)reduction, x->dtype);
  return EDGERT_OK;
}

/* The output starts as x, unless it already lies in x's memory. */
static void copy_data(const ert_step *step, int64_t from, int64_t to) {
  const char *x = step->in[0]->data;
  char *y = step->out[0]->data;
  size_t size = ert_dtype_bytes(step->in[0]->dtype);
  if (x != y && from < to) memcpy(y + (size_t)from * size, x + (size_t)from * size, (size_t)(to - from) * size);
}

/* ---- scatter_elements ---- */

typedef struct elements_state {
  ert_element_walk walk;
  ert_combine combine;
  int64_t slabs;                     /* parts that no index crosses: the first dimension, unless it is the axis */
  int64_t slab, rows_per_slab, rows; /* elements of the output in a slab; rows of indices */
} elements_state;

static edgert_status elements_prepare(ert_prepare *p) {
  ert_allow_in_place(p, 0);
  ert_combine combine;
  ERT_TRY(expect_operands(p, &combine));
  const ert_tensor *x = p->step->in[0], *indices = p->step->in[1], *updates = p->step->in[2];
  int64_t axis;
  if (x->rank == 0) return ert_reject(p, "rank", "at least 1", "0");
  ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
  ERT_TRY(ert_expect_element_indices(p, x, indices, (int)axis));
  ERT_TRY(ert_expect_shape(p, updates, indices->rank, indices->shape));
  if (x->elements == 0) return EDGERT_OK;

  void *memory;
  ERT_TRY(ert_state(p, sizeof(elements_state), &memory));
  elements_state *s = memory;
  s->combine = combine;
  ert_element_walk_init(x, indices, (int)axis, &s->walk);
  s->slabs = axis > 0 ? x->shape[0] : 1;
  s->slab = x->elements / s->slabs;
  s->rows = indices->elements ? indices->elements / indices->shape[indices->rank - 1] : 0;
  s->rows_per_slab = axis > 0 && s->rows ? s->rows / indices->shape[0] : s->rows;
  p->step->tasks = ert_cut(s->slabs, s->slab, p->workers);
  return EDGERT_OK;
}

static void elements_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const elements_state *s = step->state;
  const ert_tensor *indices = step->in[1];
  if (step->tasks == 0) return;
  const int64_t from = ert_cut_at(s->slabs, step->tasks, begin), to = ert_cut_at(s->slabs, step->tasks, end);
  const size_t size = ert_dtype_bytes(step->in[0]->dtype);
  const int64_t n = indices->shape[indices->rank - 1], last = ert_min64(to * s->rows_per_slab, s->rows);
  copy_data(step, from * s->slab, to * s->slab);
  const char *updates = step->in[2]->data;
  char *y = step->out[0]->data;
  for (int64_t row = from * s->rows_per_slab; row < last; ++row) {
    const int64_t base = ert_element_row(&s->walk, indices, row);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = base + i * s->walk.step + ert_element_offset(&s->walk, indices, row * n + i);
      s->combine(y + (size_t)at * size, updates + (size_t)(row * n + i) * size, 1);
    }
  }
}

const ert_kernel ert_kernel_scatter_elements = {
    .name = "scatter_elements", .prepare = elements_prepare, .run = elements_run};

/* ---- scatter_nd ---- */

typedef struct nd_state {
  ert_tuple_walk walk;
  ert_combine combine;
} nd_state;

static edgert_status nd_prepare(ert_prepare *p) {
  ert_allow_in_place(p, 0);
  ert_combine combine;
  ERT_TRY(expect_operands(p, &combine));
  const ert_tensor *x = p->step->in[0], *indices = p->step->in[1], *updates = p->step->in[2];
  if (indices->rank == 0) return ert_reject(p, "rank of the indices", "at least 1", "0");
  ert_tuple_walk walk;
  ERT_TRY(ert_tuple_walk_init(p, x, indices, 0, &walk));
  int rank = 0;
  int64_t shape[2 * ERT_MAX_RANK];
  for (int i = 0; i < indices->rank - 1; ++i) shape[rank++] = indices->shape[i];
  for (int i = walk.depth; i < x->rank; ++i) shape[rank++] = x->shape[i];
  ERT_TRY(ert_expect_shape(p, updates, (uint32_t)rank, shape));
  if (x->elements == 0 && updates->elements > 0) return ert_reject(p, "data", "something to index", "no elements");
  if (updates->elements == 0) walk.tuples = 0;

  void *memory;
  ERT_TRY(ert_state(p, sizeof(nd_state), &memory));
  *(nd_state *)memory = (nd_state){.walk = walk, .combine = combine};
  p->step->tasks = x->elements > 0; /* slices may overlap, and the order of the updates counts */
  return EDGERT_OK;
}

static void nd_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  if (begin >= end || step->tasks == 0) return;
  const nd_state *s = step->state;
  const size_t size = ert_dtype_bytes(step->in[0]->dtype);
  copy_data(step, 0, step->in[0]->elements);
  for (int64_t t = 0; t < s->walk.tuples; ++t)
    s->combine((char *)step->out[0]->data + (size_t)ert_tuple_offset(&s->walk, step->in[1], t) * size,
               (const char *)step->in[2]->data + (size_t)(t * s->walk.slice) * size, s->walk.slice);
}

const ert_kernel ert_kernel_scatter_nd = {.name = "scatter_nd", .prepare = nd_prepare, .run = nd_run};
