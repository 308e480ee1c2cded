/* gather, gather_elements and gather_nd: entries of a tensor picked by indices; an index out of range is clamped. */
#include "kernels/indices.h"
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct gather_state {
  int64_t outer, n, inner; /* the input as [outer, n, inner] */
  int64_t picks;           /* indices */
} gather_state;

static edgert_status expect_axis(const ert_prepare *p, const ert_tensor *t, int *axis) {
  int64_t found;
  if (t->rank == 0) return ert_reject(p, "rank", "at least 1", "0");
  ERT_TRY(ert_int(p, "axis", 0, t->rank - 1, &found));
  *axis = (int)found;
  return EDGERT_OK;
}

/* ---- gather ---- */

static edgert_status gather_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *indices = p->step->in[1], *y = p->step->out[0];
  int axis = 0, rank = 0;
  ERT_TRY(expect_axis(p, x, &axis));
  ERT_TRY(ert_expect_indices(p, indices));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  int64_t shape[2 * ERT_MAX_RANK];
  for (int i = 0; i < axis; ++i) shape[rank++] = x->shape[i];
  for (int i = 0; i < indices->rank; ++i) shape[rank++] = indices->shape[i];
  for (int i = axis + 1; i < x->rank; ++i) shape[rank++] = x->shape[i];
  ERT_TRY(ert_expect_shape(p, y, (uint32_t)rank, shape));
  if (y->elements == 0) return EDGERT_OK;
  if (x->elements == 0) return ert_reject(p, "input", "something to gather", "no elements");

  void *memory;
  ERT_TRY(ert_state(p, sizeof(gather_state), &memory));
  gather_state *state = memory;
  *state = (gather_state){.outer = ert_extent(x, 0, axis),
                          .n = x->shape[axis],
                          .inner = ert_extent(x, axis + 1, x->rank),
                          .picks = indices->elements};
  p->step->tasks = ert_cut(state->outer * state->picks, state->inner, p->workers);
  return EDGERT_OK;
}

static void gather_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const gather_state *s = step->state;
  const ert_tensor *indices = step->in[1];
  if (step->tasks == 0) return;
  const int64_t units = s->outer * s->picks, stop = ert_cut_at(units, step->tasks, end);
  const size_t bytes = (size_t)s->inner * ert_dtype_bytes(step->in[0]->dtype);
  for (int64_t unit = ert_cut_at(units, step->tasks, begin); unit < stop;) {
    int64_t outer = unit / s->picks, from = unit % s->picks, n = ert_min64(s->picks - from, stop - unit);
    const char *x = (const char *)step->in[0]->data + (size_t)(outer * s->n) * bytes;
    char *y = (char *)step->out[0]->data + (size_t)unit * bytes;
    for (int64_t i = 0; i < n; ++i, y += bytes)
      ert_copy_run(y, x + (size_t)ert_wrap_index(ert_index_at(indices, from + i), s->n) * bytes, bytes);
    unit += n;
  }
}

const ert_kernel ert_kernel_gather = {.name = "gather", .prepare = gather_prepare, .run = gather_run};

/* ---- gather_elements ---- */

static edgert_status elements_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *indices = p->step->in[1], *y = p->step->out[0];
  int axis = 0;
  ERT_TRY(expect_axis(p, x, &axis));
  ERT_TRY(ert_expect_indices(p, indices));
  ERT_TRY(ert_expect_element_indices(p, x, indices, axis));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  ERT_TRY(ert_expect_shape(p, y, indices->rank, indices->shape));
  if (y->elements == 0) return EDGERT_OK;
  void *memory;
  ERT_TRY(ert_state(p, sizeof(ert_element_walk), &memory));
  ert_element_walk_init(x, indices, axis, memory);
  int64_t rows = indices->elements / indices->shape[indices->rank - 1];
  p->step->tasks = ert_cut(rows, indices->shape[indices->rank - 1], p->workers);
  return EDGERT_OK;
}

static void elements_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const ert_element_walk *walk = step->state;
  const ert_tensor *indices = step->in[1];
  if (step->tasks == 0) return;
  const size_t size = ert_dtype_bytes(step->in[0]->dtype);
  const int64_t n = indices->shape[indices->rank - 1], rows = indices->elements / n;
  const int64_t stop = ert_cut_at(rows, step->tasks, end);
  for (int64_t row = ert_cut_at(rows, step->tasks, begin); row < stop; ++row) {
    const int64_t base = ert_element_row(walk, indices, row);
#define PICK(type)                                                                                                    \
  {                                                                                                                   \
    const type *x = step->in[0]->data;                                                                                \
    type *y = (type *)step->out[0]->data + row * n;                                                                   \
    for (int64_t i = 0; i < n; ++i) y[i] = x[base + i * walk->step + ert_element_offset(walk, indices, row * n + i)]; \
  }
    ERT_BY_SIZE(size, PICK)
#undef PICK
  }
}

const ert_kernel ert_kernel_gather_elements = {
    .name = "gather_elements", .prepare = elements_prepare, .run = elements_run};

/* ---- gather_nd ---- */

static edgert_status nd_prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *x = p->step->in[0], *indices = p->step->in[1], *y = p->step->out[0];
  ERT_TRY(ert_expect_indices(p, indices));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  if (indices->rank == 0) return ert_reject(p, "rank of the indices", "at least 1", "0");
  int64_t batch;
  ERT_TRY(ert_int_or(p, "batch_dims", 0, ert_min64(x->rank, indices->rank - 1), 0, &batch));
  ert_tuple_walk walk;
  ERT_TRY(ert_tuple_walk_init(p, x, indices, (int)batch, &walk));
  int rank = 0;
  int64_t shape[2 * ERT_MAX_RANK];
  for (int i = 0; i < indices->rank - 1; ++i) shape[rank++] = indices->shape[i];
  for (int i = (int)batch + walk.depth; i < x->rank; ++i) shape[rank++] = x->shape[i];
  ERT_TRY(ert_expect_shape(p, y, (uint32_t)rank, shape));
  if (y->elements == 0) return EDGERT_OK;
  if (x->elements == 0) return ert_reject(p, "input", "something to gather", "no elements");
  void *memory;
  ERT_TRY(ert_state(p, sizeof walk, &memory));
  *(ert_tuple_walk *)memory = walk;
  p->step->tasks = ert_cut(walk.tuples, walk.slice, p->workers);
  return EDGERT_OK;
}

static void nd_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const ert_tuple_walk *walk = step->state;
  if (step->tasks == 0) return;
  const size_t size = ert_dtype_bytes(step->in[0]->dtype), bytes = (size_t)walk->slice * size;
  const int64_t stop = ert_cut_at(walk->tuples, step->tasks, end);
  for (int64_t t = ert_cut_at(walk->tuples, step->tasks, begin); t < stop; ++t)
    ert_copy_run((char *)step->out[0]->data + (size_t)t * bytes,
                 (const char *)step->in[0]->data + (size_t)ert_tuple_offset(walk, step->in[1], t) * size, bytes);
}

const ert_kernel ert_kernel_gather_nd = {.name = "gather_nd", .prepare = nd_prepare, .run = nd_run};
