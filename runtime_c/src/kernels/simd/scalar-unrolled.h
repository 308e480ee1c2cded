/* The specification of sums of a group of filters: one output at a time. */
#ifndef ERT_KERNELS_SIMD_SCALAR_UNROLLED_H
#define ERT_KERNELS_SIMD_SCALAR_UNROLLED_H

static void unrolled_pack(const ert_unrolled_pack *pack) {
  ert_sparse_copy one = pack->of;
  one.to = pack->lines;
  one.channels = 1;
  for (size_t c = 0; c < pack->of.channels; c++, one.x += one.x_channel) {
    sparse_copy(&one);
    for (size_t v = 0; v < pack->vectors; v++)
      for (size_t lane = 0; lane < ERT_UNROLLED_LANES; lane++)
        pack->of.to[(ptrdiff_t)v * pack->apart + (ptrdiff_t)(c * ERT_UNROLLED_LANES + lane)] =
            pack->lines[v * ERT_UNROLLED_LANES + lane];
  }
}

static float unrolled_sum(const ert_unrolled *u, size_t filter, const float *x, const uint16_t *masks, size_t lane) {
  const uint32_t *batch = u->batches;
  size_t value = 0;
  float sum = 0;
  for (size_t tap = 0; tap < u->taps; tap++) {
    const char *from = (const char *)(x + lane) + u->offsets[tap];
    for (const uint32_t *last = batch + u->tap_batches[tap]; batch < last; batch++) {
      float inputs[4];
      for (int k = 0; k < 4; k++) {
        from += (ptrdiff_t)(*batch >> 8 * k & ERT_UNROLLED_FAR) * u->channel;
        inputs[k] = masks[tap] >> lane & 1 ? *(const float *)from : 0.0f;
      }
      for (size_t end = value + ert_unrolled_values(*batch); value < end; value++) {
        const uint8_t owner = u->owners[value];
        if ((owner & ERT_UNROLLED_OWNER) == filter) sum += u->values[value] * inputs[owner >> 5 & 3];
      }
    }
  }
  return sum;
}

static void unrolled_run_group(const ert_unrolled *u) {
  for (size_t v = 0; v < u->n_vectors; v++) {
    const ert_unrolled_vector *at = u->vectors + v;
    for (size_t filter = 0; filter < u->n_filters; filter++) {
      float *sums = u->sums + (v * u->n_filters + filter) * ERT_UNROLLED_LANES;
      float *y = u->y + at->y + (ptrdiff_t)filter * u->y_filter;
      const float *residual = u->residual ? u->residual + at->residual + (ptrdiff_t)filter * u->residual_filter : NULL;
      for (size_t lane = 0, to = 0; lane < ERT_UNROLLED_LANES; lane++) {
        if (!(at->valid >> lane & 1)) continue;
        float sum = unrolled_sum(u, filter, u->x + at->x, u->masks + v * u->taps, lane);
        if (!u->first)
          sum += sums[lane];
        else if (u->bias)
          sum += u->bias[filter];
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

static void unrolled_run(const ert_unrolled *groups, size_t n) {
  for (size_t i = 0; i < n; i++) unrolled_run_group(groups + i);
}

#endif
