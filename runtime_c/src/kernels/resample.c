/* Picking and mixing rows by resize tables. */
#include "kernels/resample.h"

#include "kernels/rows.h"

/* Coordinates of row `row` along the axes before the last; true if one of them lies outside the input. */
static bool locate(const ert_resample *r, int64_t row, int64_t *coordinates) {
  bool outside = false;
  for (int i = r->rank - 2; i >= 0; --i) {
    const ert_resize_axis *a = &r->axes[i];
    coordinates[i] = row % a->out;
    row /= a->out;
    outside |= a->outside && a->outside[coordinates[i]];
  }
  return outside;
}

/* ---- nearest ---- */

static void pick(const ert_resample *r, char *y, const char *x) {
  const ert_resize_axis *a = &r->axes[r->rank - 1];
  const size_t bytes = (size_t)r->inner * r->size;
  if (a->taps == 0) {
    memcpy(y, x, (size_t)a->out * bytes);
  } else if (r->doubled && bytes == 4) {
    ert_bits32 *d = (ert_bits32 *)(void *)y;
    const ert_bits32 *s = (const ert_bits32 *)(const void *)x;
    for (int64_t i = 0; i < a->out / 2; ++i) d[2 * i] = d[2 * i + 1] = s[i];
    if (a->out % 2) d[a->out - 1] = s[a->out / 2];
  } else if (r->inner == 1) {
#define PICK(type)                                              \
  {                                                             \
    type *d = (type *)(void *)y;                                \
    const type *s = (const type *)(const void *)x;              \
    for (int64_t i = 0; i < a->out; ++i) d[i] = s[a->index[i]]; \
  }
    ERT_BY_SIZE(r->size, PICK)
#undef PICK
  } else {
    for (int64_t i = 0; i < a->out; ++i) ert_copy_run(y + (size_t)i * bytes, x + (size_t)a->index[i] * bytes, bytes);
  }
  if (!a->outside) return;
  for (int64_t i = 0; i < a->out; ++i) {
    if (a->outside[i]) ert_fill(y + (size_t)i * bytes, &r->filler, r->size, r->inner);
  }
}

void ert_resample_nearest(const ert_resample *r, void *y, const void *x, int64_t begin, int64_t end) {
  const size_t row_bytes = (size_t)(r->axes[r->rank - 1].out * r->inner) * r->size;
  int64_t coordinates[ERT_MAX_RANK], previous = -1;
  for (int64_t row = begin; row < end; ++row) {
    char *out = (char *)y + (size_t)row * row_bytes;
    if (locate(r, row, coordinates)) {
      ert_fill(out, &r->filler, r->size, r->axes[r->rank - 1].out * r->inner);
      previous = -1;
      continue;
    }
    int64_t source = 0;
    for (int i = 0; i < r->rank - 1; ++i)
      source += (r->axes[i].taps ? r->axes[i].index[coordinates[i]] : coordinates[i]) * r->strides[i];
    if (source == previous) {
      memcpy(out, out - row_bytes, row_bytes); /* the same input row as just before */
    } else {
      pick(r, out, (const char *)x + (size_t)source * r->size);
    }
    previous = source;
  }
}

/* ---- linear and cubic ---- */

/* One input row and its weight, found by walking the taps of the axes before the last. */
typedef struct tap_walk {
  int64_t tap[ERT_MAX_RANK];
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
        offset += a->index[at] * r->strides[i];
      } else {
        offset += coordinates[i] * r->strides[i];
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

/* The input rows of one output row, mixed; borrows the input where one row is all there is. */
static const float *mix_rows(const ert_resample *r, const int64_t *coordinates, const float *base, float *row) {
  const int64_t n = ert_resample_scratch(r);
  tap_walk walk = {0};
  const float *a, *b;
  float wa, wb = 0;
  bool first = true;
  while (next_row(r, coordinates, &walk, base, &a, &wa)) {
    if (!next_row(r, coordinates, &walk, base, &b, &wb)) b = NULL;
    if (first && !b && wa == 1) return a;
    (first ? set_rows : add_rows)(row, a, wa, b, wb, n);
    first = false;
  }
  if (first) memset(row, 0, (size_t)n * sizeof *row);
  return row;
}

/* Entries of 16 lanes, or of any other number. */
static inline void mix_entry(float *restrict y, const float *restrict x, int64_t inner, const int32_t *index,
                             const float *weight, int64_t taps) {
  for (int64_t l = 0; l < inner; ++l) y[l] = x[index[0] * inner + l] * weight[0] + x[index[1] * inner + l] * weight[1];
  for (int64_t t = 2; t < taps; ++t) {
    for (int64_t l = 0; l < inner; ++l) y[l] += x[index[t] * inner + l] * weight[t];
  }
}

static void mix_columns(const ert_resample *r, float *restrict y, const float *restrict x) {
  const ert_resize_axis *a = &r->axes[r->rank - 1];
  const int32_t *index = a->index;
  const float *weight = a->weight;
  if (a->taps == 0) {
    memcpy(y, x, (size_t)(a->out * r->inner) * sizeof *y);
  } else if (r->inner == 1 && a->taps == 2) {
    for (int64_t i = 0; i < a->out; ++i)
      y[i] = x[index[2 * i]] * weight[2 * i] + x[index[2 * i + 1]] * weight[2 * i + 1];
  } else if (r->inner == 1 && a->taps == 4) {
    for (int64_t i = 0; i < a->out; ++i, index += 4, weight += 4)
      y[i] = (x[index[0]] * weight[0] + x[index[1]] * weight[1]) + (x[index[2]] * weight[2] + x[index[3]] * weight[3]);
  } else if (r->inner == 16) {
    for (int64_t i = 0; i < a->out; ++i)
      mix_entry(y + i * 16, x, 16, index + i * a->taps, weight + i * a->taps, a->taps);
  } else {
    for (int64_t i = 0; i < a->out; ++i)
      mix_entry(y + i * r->inner, x, r->inner, index + i * a->taps, weight + i * a->taps, a->taps);
  }
  if (!a->outside) return;
  for (int64_t i = 0; i < a->out; ++i) {
    if (a->outside[i]) ert_fill(y + i * r->inner, &r->filler, r->size, r->inner);
  }
}

void ert_resample_mix(const ert_resample *r, float *y, const float *x, int64_t begin, int64_t end, float *scratch) {
  const int64_t row_size = r->axes[r->rank - 1].out * r->inner;
  int64_t coordinates[ERT_MAX_RANK];
  for (int64_t row = begin; row < end; ++row) {
    if (locate(r, row, coordinates))
      ert_fill(y + row * row_size, &r->filler, r->size, row_size);
    else
      mix_columns(r, y + row * row_size, mix_rows(r, coordinates, x, scratch));
  }
}
