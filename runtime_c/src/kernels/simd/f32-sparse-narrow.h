/* Runs that are shorter than vectors are put together, so that each vector of a copy is stored once. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_NARROW_H
#define ERT_KERNELS_SIMD_F32_SPARSE_NARROW_H

/* What a vector has of a run: which floats from `from` on are loaded, and to which lanes they go, from which places. */
typedef struct narrow_piece {
  __m512i places;
  ptrdiff_t from;
  __mmask16 taken, lanes;
} narrow_piece;

/* n floats from `from` on, `step` apart, to lanes from `lane` on. */
static narrow_piece narrow_piece_of(ptrdiff_t from, size_t step, size_t lane, size_t n) {
  const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i places = _mm512_sub_epi32(number, _mm512_set1_epi32((int)lane));
  return (narrow_piece){
      .places = _mm512_mullo_epi32(places, _mm512_set1_epi32((int)step)),
      .from = from,
      .taken = (__mmask16)((1u << ((n - 1) * step + 1)) - 1),
      .lanes = (__mmask16)(((1u << n) - 1) << lane),
  };
}

/* A vector of each channel, of `room` floats. */
ERT_INLINE void narrow_put(const ert_sparse_copy *copy, const narrow_piece *pieces, int n, float *to, size_t channel,
                           size_t room) {
  const __mmask16 stored = (__mmask16)(room < VL ? (1u << room) - 1 : UINT16_MAX);
  const ptrdiff_t x_channel = copy->x_channel;
  const size_t channels = copy->channels;
  const float *x = copy->x;
  narrow_piece own[VL]; /* which no store changes */
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) own[i] = pieces[i];
  for (size_t c = 0; c < channels; c++, x += x_channel, to += channel) {
    __m512 v = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      const __m512 row = _mm512_maskz_loadu_ps(own[i].taken, x + own[i].from);
      v = _mm512_mask_permutexvar_ps(v, own[i].lanes, own[i].places, row);
    }
    _mm512_mask_storeu_ps(to, stored, v);
  }
}

static void narrow_store(const ert_sparse_copy *copy, const narrow_piece *pieces, size_t n, float *to, size_t channel,
                         size_t room) {
  switch (n) {
    case 0:
      narrow_put(copy, pieces, 0, to, channel, room);
      break;
    case 1:
      narrow_put(copy, pieces, 1, to, channel, room);
      break;
    case 2:
      narrow_put(copy, pieces, 2, to, channel, room);
      break;
    case 3:
      narrow_put(copy, pieces, 3, to, channel, room);
      break;
    case 4:
      narrow_put(copy, pieces, 4, to, channel, room);
      break;
    default:
      narrow_put(copy, pieces, (int)n, to, channel, room);
  }
}

/* False if runs are not so short that it pays. */
static bool sparse_copy_narrow(const ert_sparse_copy *copy) {
  const ert_sparse_run *const end = copy->runs + copy->n_runs;
  size_t channel = 0, longest = 0;
  for (const ert_sparse_run *run = copy->runs; run < end; run++) {
    channel += run->before + run->count + run->after;
    longest = run->count > longest ? run->count : longest;
  }
  if (copy->line > 0 || copy->channels < SPARSE_BESIDE || copy->n_runs * VL <= channel || longest * copy->step > VL)
    return false;
  narrow_piece pieces[VL];
  size_t at = 0, n = 0; /* of the vector that is put together */
  for (const ert_sparse_run *run = copy->runs; run < end; run++) {
    const size_t begin = run->before, all = begin + run->count + run->after;
    for (size_t i = 0; i < all;) {
      const size_t lane = at % VL, here = all - i < VL - lane ? all - i : VL - lane;
      const size_t first = i > begin ? i : begin, last = i + here < begin + run->count ? i + here : begin + run->count;
      if (first < last)
        pieces[n++] = narrow_piece_of(run->from + (ptrdiff_t)((first - begin) * copy->step), copy->step,
                                      lane + first - i, last - first);
      i += here, at += here;
      if (at % VL != 0 && at < channel) continue;
      const size_t to = (at - 1) / VL * VL;
      narrow_store(copy, pieces, n, copy->to + to, channel, channel - to);
      n = 0;
    }
  }
  return true;
}

#endif
