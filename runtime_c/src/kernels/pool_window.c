/* Pooling one output at a time: every kind, element type and layout, and the indices of maxima. */
#include "kernels/pool_window.h"

#include <math.h>

/* Where the values of one plane begin, of all images and channels, in elements. */
static int64_t plane_at(const ert_pool_shape *s, const ert_strides *t, int64_t index) {
  const int64_t image = index / s->channels, channel = index % s->channels;
  return image * t->image + (t->blocked ? channel / 16 * t->channel + channel % 16 : channel * t->channel);
}

/* Runs BODY with `at` the element and d, h, w the coordinates of each position inside the input. */
#define FOR_WINDOW(BODY)                                            \
  for (int64_t i = 0; i < spans[0].count; i++)                      \
    for (int64_t j = 0; j < spans[1].count; j++)                    \
      for (int64_t k = 0; k < spans[2].count; k++) {                \
        const int64_t d = spans[0].first + i * s->axis[0].dilation; \
        const int64_t h = spans[1].first + j * s->axis[1].dilation; \
        const int64_t w = spans[2].first + k * s->axis[2].dilation; \
        const int64_t at = from + ert_position(&s->x, 0, d, h, w);  \
        BODY                                                        \
      }

/* Runs BODY for each output (od, oh, ow) of plane `index`, `out` its element and `spans` its window. */
#define FOR_OUTPUTS(BODY)                                                                         \
  for (int64_t row = begin; row < end; row++) {                                                   \
    const int64_t od = row / s->axis[1].out % s->axis[0].out, oh = row % s->axis[1].out;          \
    const int64_t index = row / s->axis[1].out / s->axis[0].out;                                  \
    const int64_t from = plane_at(s, &s->x, index), to = plane_at(s, &s->y, index);               \
    ert_pool_span spans[3] = {ert_pool_span_at(s, 0, od), ert_pool_span_at(s, 1, oh), {0, 0, 0}}; \
    for (int64_t ow = 0; ow < s->axis[2].out; ow++) {                                             \
      spans[2] = ert_pool_span_at(s, 2, ow);                                                      \
      const int64_t out = to + ert_position(&s->y, 0, od, oh, ow);                                \
      BODY                                                                                        \
    }                                                                                             \
  }

#define MAX_ROWS(T, lowest, is_nan)                                                                                  \
  static void max_rows_##T(const ert_pool_shape *s, const void *x_all, void *y_all, int64_t *indices, int64_t begin, \
                           int64_t end) {                                                                            \
    const T *x = x_all;                                                                                              \
    T *y = y_all;                                                                                                    \
    FOR_OUTPUTS({                                                                                                    \
      T best = (lowest);                                                                                             \
      int64_t place = -1;                                                                                            \
      FOR_WINDOW({                                                                                                   \
        const T v = x[at];                                                                                           \
        if (v > best || place < 0 || (is_nan(v) && !is_nan(best))) {                                                 \
          best = v;                                                                                                  \
          place = s->column_major ? (w * s->axis[1].in + h) * s->axis[0].in + d                                      \
                                  : (d * s->axis[1].in + h) * s->axis[2].in + w;                                     \
        }                                                                                                            \
      })                                                                                                             \
      y[out] = best;                                                                                                 \
      if (indices)                                                                                                   \
        indices[plane_at(s, &s->indices, index) + ert_position(&s->indices, 0, od, oh, ow)] =                        \
            index * s->pixels + (place < 0 ? 0 : place);                                                             \
    })                                                                                                               \
  }
#define NEVER(v)  false
#define IS_NAN(v) ((v) != (v))
MAX_ROWS(float, -INFINITY, IS_NAN)
MAX_ROWS(int8_t, INT8_MIN, NEVER)
MAX_ROWS(uint8_t, 0, NEVER)

ert_pool_rows ert_pool_max_rows(uint8_t dtype) {
  switch (dtype) {
    case EDGERT_F32:
      return max_rows_float;
    case EDGERT_I8:
      return max_rows_int8_t;
    case EDGERT_U8:
      return max_rows_uint8_t;
    default:
      return NULL;
  }
}

static double power(double v, int64_t p) { return p == 1 ? v : p == 2 ? v * v : pow(v, (double)p); }

void ert_pool_sum_rows(const ert_pool_shape *s, const void *x_all, void *y_all, int64_t *indices, int64_t begin,
                       int64_t end) {
  (void)indices;
  const float *x = x_all;
  float *y = y_all;
  FOR_OUTPUTS({
    double total = 0;
    FOR_WINDOW({ total += s->kind == ERT_POOL_LP ? power(fabs((double)x[at]), s->p) : (double)x[at]; })
    const double divisor = (double)spans[0].divisor * (double)spans[1].divisor * (double)spans[2].divisor;
    if (s->kind == ERT_POOL_LP)
      y[out] = (float)(s->p == 1 ? total : s->p == 2 ? sqrt(total) : pow(total, 1.0 / (double)s->p));
    else
      y[out] = divisor > 0 ? (float)(total / divisor) : 0.0f;
  })
}
