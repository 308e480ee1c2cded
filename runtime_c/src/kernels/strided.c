/* Planning and running of strided copies. */
#include "kernels/strided.h"

#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/transpose.h"

/* Whether every source index of the walk lies in [0, source). */
static bool stays_inside(int rank, const int64_t *shape, const int64_t *strides, int64_t offset, int64_t source) {
  int64_t lo = offset, hi = offset;
  for (int i = 0; i < rank; ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach)) return false;
    int64_t *end = reach < 0 ? &lo : &hi;
    if (__builtin_add_overflow(*end, reach, end)) return false;
  }
  return lo >= 0 && hi < source;
}

/* Drops dimensions of size 1 and joins neighbours that one stride can walk. */
static void merge(int rank, const int64_t *shape, const int64_t *strides, ert_strided *out) {
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 1) continue;
    int64_t whole;
    if (n > 0 && !__builtin_mul_overflow(strides[i], shape[i], &whole) && out->strides[n - 1] == whole) {
      out->shape[n - 1] *= shape[i];
      out->strides[n - 1] = strides[i];
    } else {
      out->shape[n] = shape[i];
      out->strides[n++] = strides[i];
    }
  }
  if (n == 0) {
    out->shape[0] = 1;
    out->strides[0] = 1;
    n = 1;
  }
  out->rank = n;
}

static int find_across(const ert_strided *plan) {
  int last = plan->rank - 1;
  if (plan->strides[last] == 0 || plan->strides[last] == 1) return -1;
  for (int i = last - 1; i >= 0; --i) {
    if (plan->strides[i] == 1) return i;
  }
  return -1;
}

bool ert_strided_plan(int rank, const int64_t *shape, const int64_t *strides, int64_t offset, int64_t elements,
                      int64_t source, size_t size, ert_strided *out) {
  *out = (ert_strided){.offset = offset, .elements = elements, .size = size, .kind = ERT_STRIDED_ROWS, .across = -1};
  if (elements == 0) return true;
  if (!stays_inside(rank, shape, strides, offset, source)) return false;
  merge(rank, shape, strides, out);
  int last = out->rank - 1;
  out->across = find_across(out);
  out->units = elements / out->shape[last];
  if (out->rank == 1 && out->strides[0] == 1) {
    out->kind = ERT_STRIDED_RUN;
    out->units = (int64_t)(((uint64_t)elements * size + ERT_STRIDED_CHUNK - 1) / ERT_STRIDED_CHUNK);
  } else if (out->across >= 0) {
    int64_t width = out->shape[out->across];
    out->kind = ERT_STRIDED_TRANSPOSE;
    out->strip = out->shape[last] < 16 ? 256 : 16; /* a cache line of the source; more where rows are short */
    out->units = out->units / width * ((width + out->strip - 1) / out->strip);
  }
  return true;
}

/* ---- runs and rows ---- */

static void copy_run(const ert_strided *plan, char *dst, const char *src, int64_t begin, int64_t end) {
  size_t bytes = (size_t)plan->elements * plan->size;
  size_t from = (size_t)begin * ERT_STRIDED_CHUNK, to = (size_t)end * ERT_STRIDED_CHUNK;
  if (to > bytes) to = bytes;
  memcpy(dst + from, src + from, to - from);
}

/* `rows` rows of `n` elements, source strides in elements. */
static void copy_plane(void *dst, const void *src, int64_t rows, int64_t row_stride, int64_t n, int64_t stride,
                       size_t size) {
  if (stride == 1) {
    ert_copy_rows(dst, (ptrdiff_t)((size_t)n * size), src, row_stride * (int64_t)size, rows, (size_t)n * size);
    return;
  }
#define PLANE(type)                                               \
  {                                                               \
    type *restrict d = dst;                                       \
    const type *restrict s = src;                                 \
    for (int64_t r = 0; r < rows; ++r, d += n, s += row_stride) { \
      if (stride == 0) {                                          \
        const type v = *s;                                        \
        for (int64_t i = 0; i < n; ++i) d[i] = v;                 \
      } else {                                                    \
        for (int64_t i = 0; i < n; ++i) d[i] = s[i * stride];     \
      }                                                           \
    }                                                             \
  }
  ERT_BY_SIZE(size, PLANE)
#undef PLANE
}

static void copy_rows(const ert_strided *plan, char *dst, const char *src, int64_t begin, int64_t end) {
  int last = plan->rank - 1, row = plan->rank - 2;
  int64_t n = plan->shape[last], stride = plan->strides[last];
  int64_t height = row >= 0 ? plan->shape[row] : 1, row_stride = row >= 0 ? plan->strides[row] : 0;
  while (begin < end) {
    int64_t first = begin % height, rows = ert_min64(height - first, end - begin);
    int64_t at = plan->offset + first * row_stride, rest = begin / height;
    for (int i = row - 1; i >= 0; --i) {
      at += rest % plan->shape[i] * plan->strides[i];
      rest /= plan->shape[i];
    }
    copy_plane(dst + (size_t)(begin * n) * plan->size, src + at * (int64_t)plan->size, rows, row_stride, n, stride,
               plan->size);
    begin += rows;
  }
}

/* ---- transposes ---- */

static void copy_transposed(const ert_strided *plan, char *dst, const char *src, int64_t begin, int64_t end) {
  int last = plan->rank - 1, across = plan->across;
  int64_t n = plan->shape[last], width = plan->shape[across];
  int64_t strips = (width + plan->strip - 1) / plan->strip;
  int64_t dst_stride = 1;
  for (int i = across + 1; i <= last; ++i) dst_stride *= plan->shape[i];
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t strip = unit % strips, rest = unit / strips, x = strip * plan->strip;
    int64_t from = plan->offset + x, to = x * dst_stride, step = n;
    for (int i = last - 1; i >= 0; --i) {
      if (i != across) {
        int64_t index = rest % plan->shape[i];
        rest /= plan->shape[i];
        from += index * plan->strides[i];
        to += index * step;
      }
      step *= plan->shape[i];
    }
    ert_transpose(dst + to * (int64_t)plan->size, dst_stride, src + from * (int64_t)plan->size, plan->strides[last],
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
