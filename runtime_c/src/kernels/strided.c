/* Planning and running of strided copies. */
#include "kernels/strided.h"

#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/transpose.h"
#include "kernels/walk.h"

/* ---- planning: dimensions are listed the innermost first, until they are merged ---- */

/* Whether every index of the walk lies in [0, elements). */
static bool stays_inside(const ert_strided_walk *walk, int64_t elements) {
  int64_t lo = walk->offset, hi = walk->offset;
  for (int i = 0; i < walk->rank; ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(walk->shape[i] - 1, walk->strides[i], &reach)) return false;
    int64_t *end = reach < 0 ? &lo : &hi;
    if (__builtin_add_overflow(*end, reach, end)) return false;
  }
  return lo >= 0 && hi < elements;
}

static bool push(ert_strided *plan, int64_t size, int64_t from, int64_t to) {
  if (plan->rank == ERT_STRIDED_RANK) return false;
  plan->shape[plan->rank] = size;
  plan->from[plan->rank] = from;
  plan->to[plan->rank++] = to;
  return true;
}

/* The dimensions of a tensor, neighbours merged where one stride walks both. */
static ert_walk rows_of(const ert_tensor *t) {
  ert_walk w;
  ert_walk_over(1, &t, &w);
  return w;
}

/* The walk's dimensions, cut where those of y end; false if some cannot be. */
static bool cut_at_output(const ert_strided_walk *walk, const ert_tensor *y, ert_strided *out) {
  const ert_walk rows = rows_of(y);
  int j = rows.rank - 1;
  int64_t left = rows.shape[j], to = rows.stride[0][j];
  for (int i = walk->rank - 1; i >= 0; --i) {
    int64_t size = walk->shape[i], from = walk->strides[i];
    while (size > 1) {
      for (; left == 1; left = rows.shape[j], to = rows.stride[0][j]) --j; /* both visit as many elements: j >= 0 */
      const int64_t n = ert_min64(size, left);
      if (size % n || left % n || !push(out, n, from, to)) return false;
      size /= n, from *= n;
      left /= n, to *= n;
    }
  }
  return true;
}

/* Cuts dimensions where those of x end, and turns the walk over x's elements into one over its memory: each dimension
 * moves along one of x's. False if some cannot be cut, or an index along one of x's dimensions leaves it. */
static bool cut_at_input(const ert_tensor *x, int64_t offset, const ert_strided *walk, ert_strided *out) {
  const ert_walk rows = rows_of(x);
  int64_t unit[ERT_WALK_RANK], lo[ERT_WALK_RANK], hi[ERT_WALK_RANK], next = 1;
  for (int k = rows.rank - 1; k >= 0; --k) {
    unit[k] = next;
    lo[k] = hi[k] = offset / next % rows.shape[k];
    out->offset += lo[k] * rows.stride[0][k];
    next *= rows.shape[k];
  }
  for (int i = 0; i < walk->rank; ++i) {
    int64_t size = walk->shape[i], from = walk->from[i], to = walk->to[i];
    while (size > 1) {
      int k = 0;
      while (from % unit[k]) ++k; /* the unit of the last one is 1 */
      const int64_t step = from / unit[k], apart = step < 0 ? -step : step;
      int64_t n = size;
      if (apart && rows.shape[k] % apart == 0 && size > rows.shape[k] / apart) n = rows.shape[k] / apart;
      if (n < 2 || size % n || !push(out, n, step * rows.stride[0][k], to)) return false;
      *(step < 0 ? &lo[k] : &hi[k]) += (n - 1) * step;
      size /= n, from *= n, to *= n;
    }
  }
  for (int k = 0; k < rows.rank; ++k)
    if (lo[k] < 0 || hi[k] >= rows.shape[k]) return false;
  return true;
}

/* Joins neighbours that one stride can walk in both, and puts the innermost dimension last. */
static void merge(const ert_strided *cut, ert_strided *out) {
  for (int i = cut->rank - 1; i >= 0; --i) {
    const int64_t size = cut->shape[i], from = cut->from[i], to = cut->to[i];
    const int last = out->rank - 1;
    if (last >= 0 && out->from[last] == from * size && out->to[last] == to * size) {
      out->shape[last] *= size;
      out->from[last] = from;
      out->to[last] = to;
    } else {
      push(out, size, from, to);
    }
  }
  if (out->rank == 0) push(out, 1, 1, 1);
}

/* Runs as long as larger elements are such ones: what is moved in one piece is not counted. */
static void widen(ert_strided *plan) {
  const int last = plan->rank - 1;
  const int64_t n = plan->shape[last], bytes = n * (int64_t)plan->size;
  if (last == 0 || plan->from[last] != 1 || plan->to[last] != 1 || bytes > 16 || (bytes & (bytes - 1))) return;
  if (plan->offset % n) return;
  for (int i = 0; i < last; ++i)
    if (plan->from[i] % n || plan->to[i] % n) return;
  for (int i = 0; i < last; ++i) plan->from[i] /= n, plan->to[i] /= n;
  plan->offset /= n;
  plan->elements /= n;
  plan->size = (size_t)bytes;
  plan->rank = last;
}

static int find_across(const ert_strided *plan) {
  int last = plan->rank - 1;
  if (plan->from[last] == 0 || plan->from[last] == 1 || plan->to[last] != 1) return -1;
  for (int i = last - 1; i >= 0; --i) {
    if (plan->from[i] == 1) return i;
  }
  return -1;
}

edgert_status ert_strided_plan(const ert_prepare *p, const ert_tensor *x, const ert_strided_walk *walk,
                               const ert_tensor *y, ert_strided *out) {
  *out = (ert_strided){.elements = y->elements, .size = ert_dtype_bytes(x->dtype), .across = -1};
  if (y->elements == 0) return EDGERT_OK;
  if (!stays_inside(walk, x->elements))
    return ert_reject(p, "strides", "every index inside the input", "an index outside its %lld elements",
                      (long long)x->elements);
  ert_strided by_output = {0}, by_both = {0};
  if (!cut_at_output(walk, y, &by_output) || !cut_at_input(x, walk->offset, &by_output, &by_both))
    return ert_reject(p, "shape", "dimensions that can be cut where rows of the operands end", "others");
  merge(&by_both, out);
  out->offset = by_both.offset;
  widen(out);
  out->across = find_across(out);
  const int last = out->rank - 1;
  out->units = out->elements / out->shape[last];
  out->kind = ERT_STRIDED_ROWS;
  if (out->rank == 1 && out->from[0] == 1 && out->to[0] == 1) {
    out->kind = ERT_STRIDED_RUN;
    out->units = (int64_t)(((uint64_t)out->elements * out->size + ERT_STRIDED_CHUNK - 1) / ERT_STRIDED_CHUNK);
  } else if (out->across >= 0) {
    int64_t width = out->shape[out->across];
    out->kind = ERT_STRIDED_TRANSPOSE;
    out->strip = out->shape[last] < 16 ? 256 : 16; /* a cache line of the source; more where rows are short */
    out->units = out->units / width * ((width + out->strip - 1) / out->strip);
  }
  return EDGERT_OK;
}

/* ---- runs and rows ---- */

static void copy_run(const ert_strided *plan, char *dst, const char *src, int64_t begin, int64_t end) {
  size_t bytes = (size_t)plan->elements * plan->size;
  size_t from = (size_t)begin * ERT_STRIDED_CHUNK, to = (size_t)end * ERT_STRIDED_CHUNK;
  if (to > bytes) to = bytes;
  memcpy(dst + from, src + from, to - from);
}

typedef uint32_t word4 __attribute__((vector_size(16), aligned(1), may_alias));

/* `rows` rows of every second word of the source. */
static void take_every_second(ert_bits32 *restrict d, int64_t dst_row, const ert_bits32 *restrict s, int64_t src_row,
                              int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, d += dst_row, s += src_row) {
    int64_t i = 0;
    for (; i + 4 < n; i += 4) /* two vectors end with a word that is not taken, and that lies before one that is */
      *(word4 *)(d + i) =
          __builtin_shufflevector(*(const word4 *)(s + 2 * i), *(const word4 *)(s + 2 * i + 4), 0, 2, 4, 6);
    if (i > 0) { /* the last four, some of them again */
      const ert_bits32 *last = s + 2 * (n - 4);
      *(word4 *)(d + n - 4) = __builtin_shufflevector(*(const word4 *)last, *(const word4 *)(last + 3), 0, 2, 5, 7);
      continue;
    }
    for (; i < n; ++i) d[i] = s[2 * i];
  }
}

/* `rows` rows of `n` elements; strides in elements. */
static void copy_plane(void *dst, int64_t dst_row, int64_t dst_stride, const void *src, int64_t src_row,
                       int64_t src_stride, int64_t rows, int64_t n, size_t size) {
  if (src_stride == 1 && dst_stride == 1) {
    const int64_t bytes = (int64_t)size;
    ert_copy_rows(dst, dst_row * bytes, src, src_row * bytes, rows, (size_t)n * size);
    return;
  }
  if (size == 4 && src_stride == 2 && dst_stride == 1) {
    take_every_second(dst, dst_row, src, src_row, rows, n);
    return;
  }
#define PLANE(type)                                                            \
  {                                                                            \
    type *restrict d = dst;                                                    \
    const type *restrict s = src;                                              \
    for (int64_t r = 0; r < rows; ++r, d += dst_row, s += src_row) {           \
      if (src_stride == 0 && dst_stride == 1) {                                \
        const type v = *s;                                                     \
        for (int64_t i = 0; i < n; ++i) d[i] = v;                              \
      } else if (dst_stride == 1) {                                            \
        for (int64_t i = 0; i < n; ++i) d[i] = s[i * src_stride];              \
      } else {                                                                 \
        for (int64_t i = 0; i < n; ++i) d[i * dst_stride] = s[i * src_stride]; \
      }                                                                        \
    }                                                                          \
  }
  if (size == sizeof(ert_bits128))
    PLANE(ert_bits128)
  else
    ERT_BY_SIZE(size, PLANE)
#undef PLANE
}

static void copy_rows(const ert_strided *plan, char *dst, const char *src, int64_t begin, int64_t end) {
  int last = plan->rank - 1, row = plan->rank - 2;
  int64_t height = row >= 0 ? plan->shape[row] : 1;
  int64_t src_row = row >= 0 ? plan->from[row] : 0, dst_row = row >= 0 ? plan->to[row] : 0;
  const int64_t size = (int64_t)plan->size;
  while (begin < end) {
    int64_t first = begin % height, rows = ert_min64(height - first, end - begin), rest = begin / height;
    int64_t from = plan->offset + first * src_row, to = first * dst_row;
    for (int i = row - 1; i >= 0; --i) {
      from += rest % plan->shape[i] * plan->from[i];
      to += rest % plan->shape[i] * plan->to[i];
      rest /= plan->shape[i];
    }
    copy_plane(dst + to * size, dst_row, plan->to[last], src + from * size, src_row, plan->from[last], rows,
               plan->shape[last], plan->size);
    begin += rows;
  }
}

/* ---- transposes ---- */

static void copy_transposed(const ert_strided *plan, char *dst, const char *src, int64_t begin, int64_t end) {
  int last = plan->rank - 1, across = plan->across;
  int64_t n = plan->shape[last], width = plan->shape[across];
  int64_t strips = (width + plan->strip - 1) / plan->strip, dst_stride = plan->to[across];
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t strip = unit % strips, rest = unit / strips, x = strip * plan->strip;
    int64_t from = plan->offset + x, to = x * dst_stride;
    for (int i = last - 1; i >= 0; --i) {
      if (i == across) continue;
      int64_t index = rest % plan->shape[i];
      rest /= plan->shape[i];
      from += index * plan->from[i];
      to += index * plan->to[i];
    }
    ert_transpose(dst + to * (int64_t)plan->size, dst_stride, src + from * (int64_t)plan->size, plan->from[last],
                  ert_min64(width - x, plan->strip), n, plan->size);
  }
}

void ert_strided_run(const ert_strided *plan, void *dst, const void *src, int64_t begin, int64_t end) {
  switch (plan->kind) {
    case ERT_STRIDED_RUN:
      copy_run(plan, dst, (const char *)src + plan->offset * (int64_t)plan->size, begin, end);
      break;
    case ERT_STRIDED_ROWS:
      copy_rows(plan, dst, src, begin, end);
      break;
    case ERT_STRIDED_TRANSPOSE:
      copy_transposed(plan, dst, src, begin, end);
      break;
  }
}
