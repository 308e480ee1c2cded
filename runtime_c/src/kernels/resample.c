/* Picking and mixing rows by resize tables. */
#include "kernels/resample.h"

#include "kernels/rows.h"
#include "kernels/tensor.h"

/* Whether a row of the output is outside the input. */
static bool is_outside(const ert_resample *r, const int64_t *coordinates) {
  bool outside = false;
  for (int i = 0; i < r->rank - 1; ++i) outside |= r->axes[i].outside && r->axes[i].outside[coordinates[i]];
  return outside;
}

/* The entries of a row that lie outside, or all of them. */
static void fill_outside(const ert_resample *r, char *y, bool all) {
  const ert_resize_axis *a = &r->axes[r->rank - 1];
  const size_t step = (size_t)r->to[r->rank - 1] * r->size;
  for (int64_t i = 0; i < a->out; ++i) {
    if (all || a->outside[i]) ert_fill(y + (size_t)i * step, &r->filler, r->size, r->inner);
  }
}

/* ---- nearest ---- */

typedef uint32_t word4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Each of n words twice, in y and in `also`, which may be y. */
static void double_words(ert_bits32 *y, ert_bits32 *also, const ert_bits32 *x, int64_t n) {
  for (int64_t i = 0; i + 4 <= n; i += 4) {
    const word4 v = *(const word4 *)(x + i);
    const word4 low = __builtin_shufflevector(v, v, 0, 0, 1, 1), high = __builtin_shufflevector(v, v, 2, 2, 3, 3);
    *(word4 *)(y + 2 * i) = *(word4 *)(also + 2 * i) = low;
    *(word4 *)(y + 2 * i + 4) = *(word4 *)(also + 2 * i + 4) = high;
  }
  for (int64_t i = n / 4 * 4; i < n; ++i) y[2 * i] = y[2 * i + 1] = also[2 * i] = also[2 * i + 1] = x[i];
}

/* Rows y and `also` of outputs that have each word of x twice. */
static void double_row(const ert_resample *r, void *y, void *also, const void *x) {
  const int64_t out = r->axes[r->rank - 1].out;
  double_words(y, also, x, out / 2);
  if (out % 2) ((ert_bits32 *)y)[out - 1] = ((ert_bits32 *)also)[out - 1] = ((const ert_bits32 *)x)[out / 2];
}

static void pick(const ert_resample *r, char *y, const char *x) {
  const ert_resize_axis *a = &r->axes[r->rank - 1];
  const size_t bytes = (size_t)r->inner * r->size;
  const int64_t from = r->from[r->rank - 1] * (int64_t)r->size, to = r->to[r->rank - 1] * (int64_t)r->size;
  const bool single = r->inner == 1 && from == (int64_t)bytes && to == from;
  if (a->taps == 0) {
    ert_copy_rows(y, to, x, from, a->out, bytes);
  } else if (single && r->doubled && bytes == 4) {
    double_row(r, y, y, x);
  } else if (single) {
#define PICK(type)                                              \
  {                                                             \
    type *d = (type *)(void *)y;                                \
    const type *s = (const type *)(const void *)x;              \
    for (int64_t i = 0; i < a->out; ++i) d[i] = s[a->index[i]]; \
  }
    ERT_BY_SIZE(r->size, PICK)
#undef PICK
  } else {
    for (int64_t i = 0; i < a->out; ++i) ert_copy_run(y + i * to, x + a->index[i] * from, bytes);
  }
  if (a->outside) fill_outside(r, y, false);
}

/* Rows of words made in pairs, each of one row of x, in a plane. */
static void double_rows(const ert_resample *r, ert_bits32 *y, const ert_bits32 *x, int64_t pairs) {
  const int64_t row = r->to[r->rank - 2];
  for (int64_t i = 0; i < pairs; ++i, y += 2 * row, x += r->from[r->rank - 2]) double_row(r, y, y + row, x);
}

/* Whether the row after the one at the cursor is made from the same one of the input. */
static bool repeats(const ert_resample *r, const ert_cursor *c) {
  const int axis = r->rank - 2;
  if (axis < 0 || r->axes[axis].taps == 0 || r->axes[axis].outside) return false;
  const int64_t i = c->index[axis];
  return i + 1 < r->axes[axis].out && r->axes[axis].index[i + 1] == r->axes[axis].index[i];
}

void ert_resample_nearest(const ert_resample *r, void *y, const void *x, int64_t begin, int64_t end) {
  const int last = r->rank - 1;
  const size_t row_bytes = (size_t)(r->axes[last].out * r->inner) * r->size;
  const bool contiguous = r->to[last] == r->inner; /* a row made is a run that can be copied */
  const bool twice = contiguous && r->doubled == 2 && row_bytes == (size_t)r->axes[last].out * 4 && r->from[last] == 1;
  ert_cursor c;
  ert_walk_seek(&r->rows, begin, &c);
  for (int64_t row = begin; row < end; ++row, ert_walk_advance(&r->rows, &c, 1)) {
    char *out = (char *)y + (size_t)c.offset[0] * r->size;
    if (is_outside(r, c.index)) {
      fill_outside(r, out, true);
      continue;
    }
    int64_t source = 0;
    for (int i = 0; i < last; ++i) source += (r->axes[i].taps ? r->axes[i].index[c.index[i]] : c.index[i]) * r->from[i];
    const char *in = (const char *)x + (size_t)source * r->size;
    if (twice && row + 1 < end && repeats(r, &c)) {
      const int64_t pairs = ert_min64(end - row, r->axes[last - 1].out - c.index[last - 1]) / 2;
      double_rows(r, (ert_bits32 *)(void *)out, (const ert_bits32 *)(const void *)in, pairs);
      ert_walk_advance(&r->rows, &c, 2 * pairs - 1);
      row += 2 * pairs - 1;
      continue;
    }
    pick(r, out, in);
    for (; contiguous && row + 1 < end && repeats(r, &c); ++row) {
      ert_walk_advance(&r->rows, &c, 1);
      memcpy((char *)y + (size_t)c.offset[0] * r->size, out, row_bytes);
    }
  }
}

/* ---- linear and cubic ---- */

/* One input row and its weight, found by walking the taps of the axes before the last. */
typedef struct tap_walk {
  int64_t tap[ERT_WALK_RANK];
  bool done;
} tap_walk;

/* The next row of weight other than 0, at *x with *weight; false if there is none. */
static bool next_row(const ert_resample *r, const int64_t *coordinates, tap_walk *walk, const float *base,
                     const float **x, float *weight) {
  while (!walk->done) {
    float product = 1;
    int64_t offset = 0;
    for (int i = 0; i < r->rank - 1; ++i) {
      const ert_resize_axis *a = &r->axes[i];
      if (a->taps) {
        int64_t at = coordinates[i] * a->taps + walk->tap[i];
        product *= a->weight[at];
        offset += a->index[at] * r->from[i];
      } else {
        offset += coordinates[i] * r->from[i];
      }
    }
    int i = r->rank - 2;
    while (i >= 0 && ++walk->tap[i] >= r->axes[i].taps) walk->tap[i--] = 0;
    walk->done = i < 0;
    if (product != 0) {
      *x = base + offset;
      *weight = product;
      return true;
    }
  }
  return false;
}

/* y = a wa + b wb, or y = a wa without b. */
static void set_rows(float *restrict y, const float *restrict a, float wa, const float *restrict b, float wb,
                     int64_t n) {
  if (b) {
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * wa + b[i] * wb;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * wa;
  }
}

/* The same added to y. */
static void add_rows(float *restrict y, const float *restrict a, float wa, const float *restrict b, float wb,
                     int64_t n) {
  if (b) {
    for (int64_t i = 0; i < n; ++i) y[i] += a[i] * wa + b[i] * wb;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] += a[i] * wa;
  }
}

/* The input rows of one output row, mixed, without gaps; borrows the input where one row is all there is. */
static const float *mix_rows(const ert_resample *r, const int64_t *coordinates, const float *base, float *row) {
  const int64_t step = r->from[r->rank - 1], all = ert_resample_scratch(r);
  const int64_t n = step == r->inner ? all : r->inner;
  tap_walk walk = {0};
  const float *a, *b;
  float wa, wb = 0;
  bool first = true;
  while (next_row(r, coordinates, &walk, base, &a, &wa)) {
    if (!next_row(r, coordinates, &walk, base, &b, &wb)) b = NULL;
    if (first && !b && wa == 1 && n == all) return a;
    for (int64_t done = 0; done < all; done += n, a += step, b = b ? b + step : NULL)
      (first ? set_rows : add_rows)(row + done, a, wa, b, wb, n);
    first = false;
  }
  if (first) memset(row, 0, (size_t)all * sizeof *row);
  return row;
}

/* Entries of 16 lanes, or of any other number; taps, of which there is an even number, in pairs as rows are. */
static inline void mix_entry(float *restrict y, const float *restrict x, int64_t inner, const int32_t *index,
                             const float *weight, int64_t taps) {
  for (int64_t l = 0; l < inner; ++l) y[l] = x[index[0] * inner + l] * weight[0] + x[index[1] * inner + l] * weight[1];
  for (int64_t t = 2; t < taps; t += 2) {
    const float *a = x + index[t] * inner, *b = x + index[t + 1] * inner;
    for (int64_t l = 0; l < inner; ++l) y[l] += a[l] * weight[t] + b[l] * weight[t + 1];
  }
}

/* Single elements, 2 or 4 taps each; `step` is a compile-time constant where outputs are contiguous. */
static inline void mix_singles(const ert_resize_axis *a, float *restrict y, int64_t step, const float *restrict x) {
  const int32_t *index = a->index;
  const float *weight = a->weight;
  if (a->taps == 2) {
    for (int64_t i = 0; i < a->out; ++i)
      y[i * step] = x[index[2 * i]] * weight[2 * i] + x[index[2 * i + 1]] * weight[2 * i + 1];
  } else {
    for (int64_t i = 0; i < a->out; ++i, index += 4, weight += 4)
      y[i * step] =
          (x[index[0]] * weight[0] + x[index[1]] * weight[1]) + (x[index[2]] * weight[2] + x[index[3]] * weight[3]);
  }
}

static void mix_columns(const ert_resample *r, float *restrict y, const float *restrict x) {
  const ert_resize_axis *a = &r->axes[r->rank - 1];
  const int64_t step = r->to[r->rank - 1];
  if (a->taps == 0) {
    ert_copy_rows(y, step * 4, x, r->inner * 4, a->out, (size_t)r->inner * sizeof *y);
  } else if (r->inner == 1 && a->taps <= 4) {
    if (step == 1)
      mix_singles(a, y, 1, x);
    else
      mix_singles(a, y, step, x);
  } else if (r->inner == 16) {
    for (int64_t i = 0; i < a->out; ++i)
      mix_entry(y + i * step, x, 16, a->index + i * a->taps, a->weight + i * a->taps, a->taps);
  } else {
    for (int64_t i = 0; i < a->out; ++i)
      mix_entry(y + i * step, x, r->inner, a->index + i * a->taps, a->weight + i * a->taps, a->taps);
  }
  if (a->outside) fill_outside(r, (char *)y, false);
}

void ert_resample_mix(const ert_resample *r, float *y, const float *x, int64_t begin, int64_t end, float *scratch) {
  ert_cursor c;
  ert_walk_seek(&r->rows, begin, &c);
  for (int64_t row = begin; row < end; ++row, ert_walk_advance(&r->rows, &c, 1)) {
    float *out = y + c.offset[0];
    if (is_outside(r, c.index))
      fill_outside(r, (char *)out, true);
    else
      mix_columns(r, out, mix_rows(r, c.index, x, scratch));
  }
}
