/* top_k: the k greatest (or smallest) entries along an axis, in order, ties by lower index. NaN counts as the greatest. */
#include "kernels/ranking.h"
#include "kernels/rows.h"
#include "kernels/tensor.h"

typedef struct top_k_state {
  int64_t n, k, inner, lines; /* the input as [.., n, inner] */
  uint64_t flip;              /* applied to keys: all ones for the smallest first */
} top_k_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 2));
  ERT_TRY(ert_expect_planar(p));
  ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *values = step->out[0], *indices = step->n_out > 1 ? step->out[1] : NULL;
  int64_t axis, k, largest;
  if (x->rank == 0) return ert_reject(p, "rank", "at least 1", "0");
  ERT_TRY(ert_int(p, "axis", 0, x->rank - 1, &axis));
  ERT_TRY(ert_int(p, "k", 0, x->shape[axis], &k));
  ERT_TRY(ert_int_or(p, "largest", 0, 1, 1, &largest));
  int64_t shape[ERT_MAX_RANK];
  for (int i = 0; i < x->rank; ++i) shape[i] = i == axis ? k : x->shape[i];
  ERT_TRY(ert_expect_shape(p, values, x->rank, shape));
  ERT_TRY(ert_expect_dtype(p, values, (edgert_dtype)x->dtype));
  if (indices) {
    ERT_TRY(ert_expect_shape(p, indices, x->rank, shape));
    ERT_TRY(ert_expect_dtype(p, indices, EDGERT_I64));
  }
  if (values->elements == 0) return EDGERT_OK;

  void *memory;
  ERT_TRY(ert_state(p, sizeof(top_k_state), &memory));
  top_k_state *s = memory;
  *s = (top_k_state){.n = x->shape[axis],
                     .k = k,
                     .inner = ert_extent(x, (int)axis + 1, x->rank),
                     .lines = x->elements / x->shape[axis],
                     .flip = largest ? 0 : UINT64_MAX};
  if (__builtin_mul_overflow((size_t)k, sizeof(ert_ranked), &step->scratch_bytes))
    return ert_reject(p, "k", "a number of entries that fits in memory", "%lld", (long long)k);
  step->tasks = ert_cut(s->lines, 4 * s->n, p->workers);
  return EDGERT_OK;
}

/* Leaves the best k of n entries, `stride` apart, in the heap with the last of them at the root. */
#define LINE(name, type, key_of)                                                                              \
  static void name(const void *data, int64_t n, int64_t stride, int64_t k, uint64_t flip, ert_ranked *heap) { \
    const type *x = data;                                                                                     \
    for (int64_t i = 0; i < k; ++i) heap[i] = (ert_ranked){key_of(x[i * stride]) ^ flip, i};                  \
    ert_heapify(heap, k, true);                                                                               \
    for (int64_t i = k; i < n; ++i) {                                                                         \
      uint64_t key = key_of(x[i * stride]) ^ flip;                                                            \
      if (key <= heap[0].key) continue; /* equal keys: the entry found earlier stays */                       \
      heap[0] = (ert_ranked){key, i};                                                                         \
      ert_sift(heap, k, 0, true);                                                                             \
    }                                                                                                         \
  }

LINE(line_f32, float, ert_key_f32)
LINE(line_u8, uint8_t, (uint64_t))
LINE(line_i8, int8_t, ert_key_signed)
LINE(line_u16, uint16_t, (uint64_t))
LINE(line_i16, int16_t, ert_key_signed)
LINE(line_i32, int32_t, ert_key_signed)
LINE(line_i64, int64_t, ert_key_signed)
LINE(line_u32, uint32_t, (uint64_t))
LINE(line_u64, uint64_t, (uint64_t))

static void (*const line_of[])(const void *, int64_t, int64_t, int64_t, uint64_t, ert_ranked *) = {
    [EDGERT_F32] = line_f32, [EDGERT_U8] = line_u8,   [EDGERT_I8] = line_i8,   [EDGERT_U16] = line_u16,
    [EDGERT_I16] = line_i16, [EDGERT_I32] = line_i32, [EDGERT_I64] = line_i64, [EDGERT_U32] = line_u32,
    [EDGERT_U64] = line_u64, [EDGERT_BOOL] = line_u8,
};

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const top_k_state *s = step->state;
  const ert_tensor *x = step->in[0];
  if (step->tasks == 0) return;
  ert_ranked *heap = scratch;
  const size_t size = ert_dtype_bytes(x->dtype);
  const int64_t stop = ert_cut_at(s->lines, step->tasks, end);
  for (int64_t line = ert_cut_at(s->lines, step->tasks, begin); line < stop; ++line) {
    int64_t outer = line / s->inner, inner = line % s->inner;
    const char *source = (const char *)x->data + (size_t)(outer * s->n * s->inner + inner) * size;
    line_of[x->dtype](source, s->n, s->inner, s->k, s->flip, heap);
    for (int64_t i = s->k - 1; i >= 0; --i) { /* the last of the ranking goes last */
      int64_t index = heap[0].index, at = (outer * s->k + i) * s->inner + inner;
      memcpy((char *)step->out[0]->data + (size_t)at * size, source + (size_t)(index * s->inner) * size, size);
      if (step->n_out > 1) ((int64_t *)step->out[1]->data)[at] = index;
      heap[0] = heap[i];
      ert_sift(heap, i, 0, true);
    }
  }
}

const ert_kernel ert_kernel_top_k = {.name = "top_k", .prepare = prepare, .run = run};
