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

/* `count` rows, at most 4: what they need across their lanes is found for all of them at once. */
ERT_INLINE void softmax_rows_of(size_t count, bool log, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row,
                                size_t n) {
  const size_t whole = n / VL * VL, part = n - whole;
  vf lanes[4], tail[4]; /* tails stay here: a load would wait for the store of a part of a vector */
  for (size_t r = 0; r < 4; r++)
    lanes[r] = r < count ? fold_row_lanes(ERT_FOLD_MAX, x + (ptrdiff_t)r * x_row, n) : vzero();
  const vf largest = fold_four(ERT_FOLD_MAX, lanes[0], lanes[1], lanes[2], lanes[3]);
  for (size_t r = 0; r < count; r++) {
    const float *from = x + (ptrdiff_t)r * x_row, most = largest[r * (VL / 4)];
    float *to = y + (ptrdiff_t)r * y_row;
    vf sums = vzero();
    for (size_t i = 0; i < whole; i += VL) {
      const vf e = softmax_rounded(vexp(vload(from + i) - most));
      sums += e;
      if (!log) vstore(to + i, e);
    }
    tail[r] = part ? softmax_rounded(vexp(vload_part(from + whole, part) - most)) : vzero();
    lanes[r] = sums + vfirst(tail[r], part, vzero());
  }
  const vf sum = fold_four(ERT_FOLD_SUM, lanes[0], lanes[1], lanes[2], lanes[3]);
  const vf last = log ? vlog(sum) : 1.0f / sum;
  for (size_t r = count; r-- > 0;) { /* the last one first: loads would wait for the store of a part before them */
    const float *from = x + (ptrdiff_t)r * x_row, most = largest[r * (VL / 4)], by = last[r * (VL / 4)];
    float *to = y + (ptrdiff_t)r * y_row;
    if (log) {
      for (size_t i = 0; i < whole; i += VL) vstore(to + i, (vload(from + i) - most) - by);
      if (part) vstore_part(to + whole, (vload_part(from + whole, part) - most) - by, part);
    } else {
      for (size_t i = 0; i < whole; i += VL) vstore(to + i, vload(to + i) * by);
      if (part) vstore_part(to + whole, tail[r] * by, part);
    }
  }
}

static void f32_softmax_rows(bool log, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row, size_t n,
                             size_t rows) {
  for (; rows >= 4; rows -= 4, x += 4 * x_row, y += 4 * y_row) softmax_rows_of(4, log, x, x_row, y, y_row, n);
  if (rows > 0) softmax_rows_of(rows, log, x, x_row, y, y_row, n);
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
