/* one_hot: a new axis of `depth` entries, on where it equals the index and off elsewhere. */
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct one_hot_state {
  int64_t outer, depth, inner; /* the output as [outer, depth, inner] */
} one_hot_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_tensor *indices = p->step->in[0], *values = p->step->in[1], *y = p->step->out[0];
  const int64_t two = 2;
  int64_t axis, depth;
  if (indices->rank + 1 > ERT_MAX_RANK) return ert_reject(p, "rank of the indices", "at most 7", "%d", indices->rank);
  if (indices->dtype == EDGERT_BOOL) return ert_reject(p, "element type of the indices", "a number", "bool");
  ERT_TRY(ert_int(p, "axis", 0, indices->rank, &axis));
  ERT_TRY(ert_int(p, "depth", 0, INT64_MAX, &depth));
  ERT_TRY(ert_expect_shape(p, values, 1, &two));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)values->dtype));
  int64_t shape[ERT_MAX_RANK];
  for (int i = 0; i <= indices->rank; ++i)
    shape[i] = i < axis ? indices->shape[i] : i == axis ? depth : indices->shape[i - 1];
  ERT_TRY(ert_expect_shape(p, y, indices->rank + 1u, shape));
  if (y->elements == 0) return EDGERT_OK;

  void *memory;
  ERT_TRY(ert_state(p, sizeof(one_hot_state), &memory));
  *(one_hot_state *)memory = (one_hot_state){
      .outer = ert_extent(y, 0, (int)axis), .depth = depth, .inner = ert_extent(y, (int)axis + 1, y->rank)};
  p->step->tasks = ert_cut(indices->elements, depth, p->workers);
  return EDGERT_OK;
}

/* The position that index `i` switches on, -1 if none. */
static int64_t position(const ert_tensor *indices, int64_t i, int64_t depth) {
  int64_t index;
  switch (indices->dtype) {
    case EDGERT_F32: {
      float value = ((const float *)indices->data)[i];
      if (!(value > -(float)depth - 1 && value < (float)depth)) return -1;
      index = (int64_t)value; /* towards zero */
      break;
    }
    case EDGERT_U8:
      index = ((const uint8_t *)indices->data)[i];
      break;
    case EDGERT_I8:
      index = ((const int8_t *)indices->data)[i];
      break;
    case EDGERT_U16:
      index = ((const uint16_t *)indices->data)[i];
      break;
    case EDGERT_I16:
      index = ((const int16_t *)indices->data)[i];
      break;
    case EDGERT_I32:
      index = ((const int32_t *)indices->data)[i];
      break;
    case EDGERT_U32:
      index = ((const uint32_t *)indices->data)[i];
      break;
    case EDGERT_U64: {
      uint64_t value = ((const uint64_t *)indices->data)[i];
      index = value < (uint64_t)depth ? (int64_t)value : -depth - 1;
      break;
    }
    default:
      index = ((const int64_t *)indices->data)[i];
      break;
  }
  if (index < 0) index += depth;
  return index >= 0 && index < depth ? index : -1;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const one_hot_state *s = step->state;
  const ert_tensor *indices = step->in[0];
  if (step->tasks == 0) return;
  const size_t size = ert_dtype_bytes(step->out[0]->dtype);
  const char *off = step->in[1]->data, *on = off + size;
  const int64_t stop = ert_cut_at(indices->elements, step->tasks, end);
  for (int64_t i = ert_cut_at(indices->elements, step->tasks, begin); i < stop;) {
    int64_t first = i % s->inner, n = ert_min64(s->inner - first, stop - i);
    char *y = (char *)step->out[0]->data + (size_t)(i / s->inner * s->depth * s->inner + first) * size;
    if (n == s->inner) {
      ert_fill(y, off, size, s->depth * s->inner);
    } else {
      for (int64_t d = 0; d < s->depth; ++d) ert_fill(y + (size_t)(d * s->inner) * size, off, size, n);
    }
    for (int64_t k = 0; k < n; ++k) {
      int64_t d = position(indices, i + k, s->depth);
      if (d >= 0) memcpy(y + (size_t)(d * s->inner + k) * size, on, size);
    }
    i += n;
  }
}

const ert_kernel ert_kernel_one_hot = {.name = "one_hot", .prepare = prepare, .run = run};
