/* Sums of a group of filters: those of sixteen positions stay where they are while the group's weights pass by.
 *
 * Walked weight by weight, sums lie in the first cache and each product costs a load and a store of its sum; it is what is
 * left where no instructions can be generated. The order of all sums, and so their bits, are those of generated ones. */
#ifndef ERT_KERNELS_SIMD_F32_UNROLLED_H
#define ERT_KERNELS_SIMD_F32_UNROLLED_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Positions of n channels, `count` of each and zeros behind them, vector by vector. */
ERT_INLINE void unrolled_scatter(const ert_unrolled_pack *pack, const float *from, ptrdiff_t channel, size_t count,
                                 size_t n, float *to) {
  for (size_t v = 0; v < pack->vectors; v++, from += ERT_UNROLLED_LANES, to += pack->apart)
    for (int i = 0; i < V16; i++) {
      const size_t begin = v * ERT_UNROLLED_LANES + (size_t)(i * VL), left = count > begin ? count - begin : 0;
      const float *own = from + i * VL;
      float *own_to = to + i * VL;
      if (left >= VL)
        for (size_t c = 0; c < n; c++, own += channel, own_to += ERT_UNROLLED_LANES) vstore(own_to, vload(own));
      else
        for (size_t c = 0; c < n; c++, own += channel, own_to += ERT_UNROLLED_LANES)
          vstore(own_to, vload_part(own, left));
    }
}

/* Some channels at a time: those of several runs are copied to lines first. */
static void unrolled_pack(const ert_unrolled_pack *pack) {
  const ert_sparse_run *run = pack->of.runs;
  const size_t line = pack->vectors * ERT_UNROLLED_LANES;
  uint64_t list[ERT_SPARSE_LIST / sizeof(uint64_t)];
  ert_sparse_copy some = pack->of;
  some.to = pack->lines;
  some.list = list, list[0] = 0;
  for (size_t first = 0; first < pack->of.channels; first += some.channels) {
    const size_t left = pack->of.channels - first;
    some.channels = left < ERT_UNROLLED_PACKED ? left : ERT_UNROLLED_PACKED;
    float *to = pack->of.to + first * ERT_UNROLLED_LANES;
    if (some.n_runs == 1 && some.step == 1) {
      unrolled_scatter(pack, some.x + run->from, some.x_channel, run->count, some.channels, to);
    } else {
      sparse_copy(&some);
      unrolled_scatter(pack, pack->lines, (ptrdiff_t)line, line, some.channels, to);
    }
    some.x += (ptrdiff_t)some.channels * some.x_channel;
  }
}

/* The bias, or the sums of the tiles before, are added at the end: errors of rounding grow with what was added up already. */
ERT_INLINE void unrolled_add_before(const ert_unrolled *u, const float *sums, float (*acc)[ERT_UNROLLED_LANES]) {
  for (size_t f = 0; f < u->n_filters; f++, sums += ERT_UNROLLED_LANES)
    for (int i = 0; i < ERT_UNROLLED_LANES; i += VL)
      if (!u->first)
        vstore(acc[f] + i, vload(acc[f] + i) + vload(sums + i));
      else if (u->bias)
        vstore(acc[f] + i, vload(acc[f] + i) + vsplat(u->bias[f]));
}

/* The inputs that are there, and zeros for the others. */
ERT_INLINE void unrolled_inputs(const float *from, uint16_t mask, float *to) {
  if (mask == UINT16_MAX)
    for (int v = 0; v < V16; v++) vstore(to + v * VL, vload(from + v * VL));
  else
    for (int lane = 0; lane < ERT_UNROLLED_LANES; lane++) to[lane] = mask >> lane & 1 ? from[lane] : 0.0f;
}

/* What instructions round once is rounded once, however compilers are asked to optimize. */
ERT_INLINE vf unrolled_multiply_add(vf x, float value, vf sum) {
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
  return (vf)_mm512_fmadd_ps((__m512)x, _mm512_set1_ps(value), (__m512)sum);
#else
  return sum + x * value;
#endif
}

ERT_INLINE void unrolled_add(const ert_unrolled *u, const float *x, const uint16_t *masks,
                             float (*acc)[ERT_UNROLLED_LANES]) {
  const uint32_t *batch = u->batches;
  const uint8_t *owner = u->owners;
  const float *value = u->values;
  for (size_t tap = 0; tap < u->taps; tap++) {
    const char *from = (const char *)x + u->offsets[tap];
    for (const uint32_t *last = batch + u->tap_batches[tap]; batch < last; batch++) {
      float inputs[4][ERT_UNROLLED_LANES];
      for (int k = 0; k < 4; k++) {
        from += (ptrdiff_t)(*batch >> 8 * k & ERT_UNROLLED_FAR) * u->channel;
        unrolled_inputs((const float *)(const void *)from, masks[tap], inputs[k]);
      }
      for (uint32_t n = ert_unrolled_values(*batch); n > 0; n--, owner++, value++) {
        float *sum = acc[*owner & ERT_UNROLLED_OWNER];
        const float *own = inputs[*owner >> 5 & 3];
        for (int v = 0; v < V16; v++)
          vstore(sum + v * VL, unrolled_multiply_add(vload(own + v * VL), *value, vload(sum + v * VL)));
      }
    }
  }
}

ERT_INLINE void unrolled_end(const ert_unrolled *u, const ert_unrolled_vector *at, float (*acc)[ERT_UNROLLED_LANES]) {
  const vf lo = vsplat(u->lo), hi = vsplat(u->hi);
  for (size_t f = 0; f < u->n_filters; f++) {
    float *y = u->y + at->y + (ptrdiff_t)f * u->y_filter;
    const float *residual = u->residual ? u->residual + at->residual + (ptrdiff_t)f * u->residual_filter : NULL;
    if (at->valid == UINT16_MAX) {
      for (int i = 0; i < ERT_UNROLLED_LANES; i += VL) {
        vf sum = vload(acc[f] + i);
        if (residual) sum += vload(residual + i);
        vstore(y + i, vmin(hi, vmax(lo, sum)));
      }
      continue;
    }
    for (size_t lane = 0, to = 0; lane < ERT_UNROLLED_LANES; lane++) {
      if (!(at->valid >> lane & 1)) continue;
      if (!u->together) to = lane;
      float sum = acc[f][lane] + (residual ? residual[to] : 0.0f);
      if (sum < u->lo) sum = u->lo;
      if (sum > u->hi) sum = u->hi;
      y[to++] = sum;
    }
  }
}

ERT_INLINE void unrolled_walk_group(const ert_unrolled *u) {
  for (size_t v = 0; v < u->n_vectors; v++) {
    float *sums = u->sums + v * u->n_filters * ERT_UNROLLED_LANES;
    float acc[ERT_UNROLLED_FILTERS][ERT_UNROLLED_LANES] = {0};
    unrolled_add(u, u->x + u->vectors[v].x, u->masks + v * u->taps, acc);
    unrolled_add_before(u, sums, acc);
    if (u->last)
      unrolled_end(u, u->vectors + v, acc);
    else
      memcpy(sums, acc, u->n_filters * sizeof *acc);
  }
}

static void unrolled_walk(const ert_unrolled *groups, size_t n) {
  for (size_t i = 0; i < n; i++) unrolled_walk_group(groups + i);
}

#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
#include "kernels/simd/unroll-avx512.h"
#define UNROLLED_MAKE \
  .unrolled_frame = unrolled_make_frame, .unrolled_group = unrolled_make_group, .unrolled_bytes = unrolled_bytes
#else
#define UNROLLED_MAKE .unrolled_bytes = NULL
static void unrolled_run(const ert_unrolled *groups, size_t n) { unrolled_walk(groups, n); }
#endif

#endif
