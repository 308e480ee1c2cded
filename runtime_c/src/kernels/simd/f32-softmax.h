/* Softmax and its logarithm over rows, and over columns side by side. */

static void f32_softmax_row(bool log, const float *x, float *y, size_t n) {
  const float largest = fold_row_of(ERT_FOLD_MAX, -INFINITY, 0, x, n);
  vf sums = vzero();
  size_t i = 0;
  for (; i + VL <= n; i += VL) {
    vf e = vexp(vload(x + i) - largest);
    sums += e;
    if (!log) vstore(y + i, e);
  }
  if (i < n) {
    vf e = vexp(vload_part(x + i, n - i) - largest);
    sums += vfirst(e, n - i, vzero());
    if (!log) vstore_part(y + i, e, n - i);
  }
  const float sum = fold_lanes(ERT_FOLD_SUM, sums);
  if (log) {
    float shift;
    vf l = vlog(vsplat(sum));
    memcpy(&shift, &l, sizeof shift);
    for (i = 0; i + VL <= n; i += VL) vstore(y + i, (vload(x + i) - largest) - shift);
    if (i < n) vstore_part(y + i, (vload_part(x + i, n - i) - largest) - shift, n - i);
  } else {
    const float scale = 1.0f / sum;
    for (i = 0; i + VL <= n; i += VL) vstore(y + i, vload(y + i) * scale);
    if (i < n) vstore_part(y + i, vload_part(y + i, n - i) * scale, n - i);
  }
}

/* `count` vectors of columns, the last of which has `part` of them. */
ERT_INLINE void softmax_columns_of(size_t count, size_t part, bool log, const float *x, float *y, size_t n,
                                   ptrdiff_t stride) {
  vf largest[4], sums[4];
  for (size_t j = 0; j < count; j++) largest[j] = vsplat(-INFINITY), sums[j] = vzero();
#define COLUMNS_LOAD(from) (part == VL ? vload((from) + j * VL) : vload_part((from) + j * VL, part))
#define COLUMNS_STORE(to, v)               \
  do {                                     \
    if (part == VL)                        \
      vstore((to) + j * VL, v);            \
    else                                   \
      vstore_part((to) + j * VL, v, part); \
  } while (0)
  for (size_t r = 0; r < n; r++)
    for (size_t j = 0; j < count; j++) largest[j] = vmax_nan(largest[j], COLUMNS_LOAD(x + (ptrdiff_t)r * stride));
  for (size_t r = 0; r < n; r++)
    for (size_t j = 0; j < count; j++) {
      vf e = vexp(COLUMNS_LOAD(x + (ptrdiff_t)r * stride) - largest[j]);
      sums[j] += e;
      if (!log) COLUMNS_STORE(y + (ptrdiff_t)r * stride, e);
    }
  for (size_t j = 0; j < count; j++) sums[j] = log ? vlog(sums[j]) : 1.0f / sums[j];
  for (size_t r = 0; r < n; r++)
    for (size_t j = 0; j < count; j++) {
      vf v = COLUMNS_LOAD((log ? x : y) + (ptrdiff_t)r * stride);
      v = log ? (v - largest[j]) - sums[j] : v * sums[j];
      COLUMNS_STORE(y + (ptrdiff_t)r * stride, v);
    }
#undef COLUMNS_LOAD
#undef COLUMNS_STORE
}

static void f32_softmax_columns(bool log, const float *x, float *y, size_t n, ptrdiff_t stride, size_t width) {
  size_t i = 0;
  for (; i + 4 * VL <= width; i += 4 * VL) softmax_columns_of(4, VL, log, x + i, y + i, n, stride);
  for (; i + VL <= width; i += VL) softmax_columns_of(1, VL, log, x + i, y + i, n, stride);
  if (i < width) softmax_columns_of(1, width - i, log, x + i, y + i, n, stride);
}
