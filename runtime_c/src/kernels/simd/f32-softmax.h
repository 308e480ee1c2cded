/* Softmax and its logarithm over rows, and over columns side by side. Both add up every VL-th exponential, then those
 * sums by halves: a row and a column of the same values give the same bits. */

/* v as it is, but never fused as a product into a sum. */
ERT_INLINE vf softmax_rounded(vf v) {
#if defined(__x86_64__)
  __asm__("" : "+x"(v));
#else
  __asm__("" : "+w"(v));
#endif
  return v;
}

static void f32_softmax_row(bool log, const float *x, float *y, size_t n) {
  const float largest = fold_row_of(ERT_FOLD_MAX, -INFINITY, 0, x, n);
  vf sums = vzero(), tail = vzero(); /* the tail stays here: a load would wait for the store of a part of a vector */
  size_t i = 0;
  for (; i + VL <= n; i += VL) {
    vf e = softmax_rounded(vexp(vload(x + i) - largest));
    sums += e;
    if (!log) vstore(y + i, e);
  }
  if (i < n) {
    tail = softmax_rounded(vexp(vload_part(x + i, n - i) - largest));
    sums += vfirst(tail, n - i, vzero());
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
    if (i < n) vstore_part(y + i, tail * scale, n - i);
  }
}

/* `count` vectors of columns, the last of which has `part` of them. */
ERT_INLINE void softmax_columns_of(size_t count, size_t part, bool log, const float *x, ptrdiff_t x_stride, float *y,
                                   ptrdiff_t y_stride, size_t n) {
  vf largest[4], sums[VL][4];
  for (size_t j = 0; j < count; j++) largest[j] = vsplat(-INFINITY);
#define COLUMNS_LOAD(from) (part == VL ? vload((from) + j * VL) : vload_part((from) + j * VL, part))
#define COLUMNS_STORE(to, v)               \
  do {                                     \
    if (part == VL)                        \
      vstore((to) + j * VL, v);            \
    else                                   \
      vstore_part((to) + j * VL, v, part); \
  } while (0)
  for (size_t r = 0; r < n; r++)
    for (size_t j = 0; j < count; j++) largest[j] = vmax_nan(largest[j], COLUMNS_LOAD(x + (ptrdiff_t)r * x_stride));
  for (size_t i = 0; i < VL; i++) {
    vf sum[4];
    for (size_t j = 0; j < count; j++) sum[j] = vzero();
    for (size_t r = i; r < n; r += VL)
      for (size_t j = 0; j < count; j++) {
        vf e = softmax_rounded(vexp(COLUMNS_LOAD(x + (ptrdiff_t)r * x_stride) - largest[j]));
        sum[j] += e;
        if (!log) COLUMNS_STORE(y + (ptrdiff_t)r * y_stride, e);
      }
    for (size_t j = 0; j < count; j++) sums[i][j] = sum[j];
  }
  for (size_t half = VL / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; i++)
      for (size_t j = 0; j < count; j++) sums[i][j] += sums[i + half][j];
  vf last[4];
  for (size_t j = 0; j < count; j++) last[j] = log ? vlog(sums[0][j]) : 1.0f / sums[0][j];
  for (size_t r = 0; r < n; r++)
    for (size_t j = 0; j < count; j++) {
      vf v = COLUMNS_LOAD(log ? x + (ptrdiff_t)r * x_stride : y + (ptrdiff_t)r * y_stride);
      v = log ? (v - largest[j]) - last[j] : v * last[j];
      COLUMNS_STORE(y + (ptrdiff_t)r * y_stride, v);
    }
#undef COLUMNS_LOAD
#undef COLUMNS_STORE
}

static void f32_softmax_columns(bool log, const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride, size_t n,
                                size_t width) {
  size_t i = 0;
  for (; i + 4 * VL <= width; i += 4 * VL) softmax_columns_of(4, VL, log, x + i, x_stride, y + i, y_stride, n);
  for (; i + VL <= width; i += VL) softmax_columns_of(1, VL, log, x + i, x_stride, y + i, y_stride, n);
  if (i < width) softmax_columns_of(1, width - i, log, x + i, x_stride, y + i, y_stride, n);
}
