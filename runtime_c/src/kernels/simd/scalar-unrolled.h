/* The specification of sums of a group of filters: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_UNROLLED_H
#define ERT_KERNELS_SIMD_SCALAR_UNROLLED_H

static float unrolled_sum(const ert_unrolled *u, size_t filter, const float *x, float sum) {
  const int32_t *offset = u->offsets;
  for (size_t i = 0, value = 0; i < u->n_batches; i++) {
    float inputs[4];
    for (int k = 0; k < 4; k++) {
      offset += u->places[i] >> 8 * k & ERT_UNROLLED_FAR;
      inputs[k] = *(const float *)((const char *)x + *offset);
    }
    for (size_t end = value + ert_unrolled_values(u->places[i]); value < end; value++)
      if ((u->owners[value] & ERT_UNROLLED_OWNER) == filter) sum += u->values[value] * inputs[u->owners[value] >> 5 & 3];
  }
  return sum;
}

static void unrolled_run(const ert_unrolled *u) {
  for (size_t v = 0; v < u->n_vectors; v++) {
    const ert_unrolled_vector *at = u->vectors + v;
    for (size_t filter = 0; filter < u->n_filters; filter++) {
      float *sums = u->sums + (v * u->n_filters + filter) * ERT_UNROLLED_LANES;
      float *y = u->y + at->y + (ptrdiff_t)filter * u->y_filter;
      const float *residual = u->residual ? u->residual + at->residual + (ptrdiff_t)filter * u->residual_filter : NULL;
      for (size_t lane = 0, to = 0; lane < ERT_UNROLLED_LANES; lane++) {
        if (!(at->valid >> lane & 1)) continue;
        float sum = u->first ? u->bias ? u->bias[filter] : 0.0f : sums[lane];
        sum = unrolled_sum(u, filter, u->x + at->x + lane, sum);
        if (!u->last) {
          sums[lane] = sum;
          continue;
        }
        if (!u->together) to = lane;
        if (residual) sum += residual[to];
        if (sum < u->lo) sum = u->lo;
        if (sum > u->hi) sum = u->hi;
        y[to++] = sum;
      }
    }
  }
}

#endif
