/* Reductions of integers in 64 bits, which wrap to the element's width; means truncate. */
#include "kernels/reduce_integer.h"

#include <math.h>

#include "kernels/dtypes.h"

/* W: the 64-bit type of the element's signedness. Arithmetic is on uint64_t, which wraps. */
#define REDUCE(T, W, lowest, highest)                                                                        \
  static void reduce_##T(int kind, const ert_reduction *r, const void *from_all, int64_t from, void *to_all, \
                         int64_t to) {                                                                       \
    const T *x = (const T *)from_all + from;                                                                 \
    const ert_walk *w = &r->folded;                                                                          \
    const int64_t stride = w->stride[0][w->rank - 1];                                                        \
    ert_cursor c;                                                                                            \
    ert_walk_start(w, &c);                                                                                   \
    uint64_t total = kind == ERT_REDUCE_PROD;                                                                \
    T largest = (lowest), smallest = (highest);                                                              \
    for (int64_t left = w->elements, n; left > 0; left -= n, ert_walk_advance(w, &c, n)) {                   \
      n = ert_walk_left(w, &c);                                                                              \
      for (int64_t i = 0; i < n; i++) {                                                                      \
        const T v = x[c.offset[0] + i * stride];                                                             \
        const uint64_t wide = (uint64_t)(W)v;                                                                \
        switch (kind) {                                                                                      \
          case ERT_REDUCE_PROD:                                                                              \
            total *= wide;                                                                                   \
            break;                                                                                           \
          case ERT_REDUCE_MAX:                                                                               \
            largest = v > largest ? v : largest;                                                             \
            break;                                                                                           \
          case ERT_REDUCE_MIN:                                                                               \
            smallest = v < smallest ? v : smallest;                                                          \
            break;                                                                                           \
          case ERT_REDUCE_L1:                                                                                \
            total += (W)v < (W)1 ? 0 - wide : wide;                                                          \
            break;                                                                                           \
          case ERT_REDUCE_L2:                                                                                \
          case ERT_REDUCE_SUM_SQUARE:                                                                        \
            total += wide * wide;                                                                            \
            break;                                                                                           \
          default:                                                                                           \
            total += wide;                                                                                   \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
    T *y = (T *)to_all + to;                                                                                 \
    switch (kind) {                                                                                          \
      case ERT_REDUCE_MAX:                                                                                   \
        *y = largest;                                                                                        \
        break;                                                                                               \
      case ERT_REDUCE_MIN:                                                                                   \
        *y = smallest;                                                                                       \
        break;                                                                                               \
      case ERT_REDUCE_MEAN:                                                                                  \
        *y = (T)(w->elements ? (W)total / (W)w->elements : 0);                                               \
        break;                                                                                               \
      case ERT_REDUCE_L2:                                                                                    \
        *y = root_##T((double)(T)total);                                                                     \
        break;                                                                                               \
      default:                                                                                               \
        *y = (T)total;                                                                                       \
    }                                                                                                        \
  }

/* The truncated root of a wrapped sum; 0 of a negative one. */
#define ROOT(TYPE, T) \
  static inline T root_##T(double v) { return v > 0 ? (T)sqrt(v) : (T)0; }
ERT_INTEGER_TYPES(ROOT)

REDUCE(uint8_t, uint64_t, 0, UINT8_MAX)
REDUCE(uint16_t, uint64_t, 0, UINT16_MAX)
REDUCE(uint32_t, uint64_t, 0, UINT32_MAX)
REDUCE(uint64_t, uint64_t, 0, UINT64_MAX)
REDUCE(int8_t, int64_t, INT8_MIN, INT8_MAX)
REDUCE(int16_t, int64_t, INT16_MIN, INT16_MAX)
REDUCE(int32_t, int64_t, INT32_MIN, INT32_MAX)
REDUCE(int64_t, int64_t, INT64_MIN, INT64_MAX)

static void reduce_bool(int kind, const ert_reduction *r, const void *x, int64_t from, void *y, int64_t to) {
  uint8_t *result = (uint8_t *)y + to;
  reduce_uint8_t(kind, r, x, from, y, to);
  *result = *result != 0;
}

static const ert_reduce_integer functions[EDGERT_BOOL + 1] = {
#define X(name, T) [EDGERT_##name] = reduce_##T,
    ERT_INTEGER_TYPES(X)
#undef X
        [EDGERT_BOOL] = reduce_bool,
};

ert_reduce_integer ert_reduce_integer_find(int kind, int dtype) {
  if (kind == ERT_REDUCE_LOG_SUM || kind == ERT_REDUCE_LOG_SUM_EXP) return NULL;
  if (dtype == EDGERT_BOOL && kind != ERT_REDUCE_MAX && kind != ERT_REDUCE_MIN) return NULL;
  return functions[dtype];
}
