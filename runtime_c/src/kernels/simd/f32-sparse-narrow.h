/* Runs that are shorter than vectors are put together, so that each vector of a copy is stored once. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_NARROW_H
#define ERT_KERNELS_SIMD_F32_SPARSE_NARROW_H

/* What a vector has of a run: which floats from `from` on are loaded, and to which lanes they go, from which places. */
typedef struct narrow_piece {
  ptrdiff_t from;
  uint8_t places[16];
  __mmask16 taken, lanes;
} narrow_piece;

/* A vector of a channel's copy, of `room` floats, put together of n pieces. */
typedef struct narrow_vector {
  size_t to, room, n;
} narrow_vector;

enum { NARROW_VECTORS = 64, NARROW_PIECES = 256 }; /* that are listed at once */

/* The vectors of runs, in order; none: not listed yet. */
typedef struct narrow_list {
  size_t count;
  narrow_vector vectors[NARROW_VECTORS];
  narrow_piece pieces[NARROW_PIECES];
} narrow_list;
_Static_assert(sizeof(narrow_list) <= ERT_SPARSE_LIST, "a list fits where it is kept");

/* n floats from `from` on, `step` apart, to lanes from `lane` on. */
static narrow_piece narrow_piece_of(ptrdiff_t from, size_t step, size_t lane, size_t n) {
  const __m128i number = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m128i place = _mm_sub_epi8(number, _mm_set1_epi8((char)lane)), places = place;
  for (size_t i = 1; i < step; i++) places = _mm_add_epi8(places, place);
  narrow_piece piece = {
      .from = from,
      .taken = (__mmask16)((1u << ((n - 1) * step + 1)) - 1),
      .lanes = (__mmask16)(((1u << n) - 1) << lane),
  };
  _mm_storeu_si128((void *)piece.places, places);
  return piece;
}

/* A vector of each channel. */
ERT_INLINE void narrow_put(const ert_sparse_copy *copy, const narrow_vector *vector, const narrow_piece *pieces, int n,
                           size_t channel) {
  const bool part = vector->room < VL;
  const __mmask16 stored = (__mmask16)(part ? (1u << vector->room) - 1 : UINT16_MAX);
  const ptrdiff_t x_channel = copy->x_channel;
  const size_t channels = copy->channels;
  const float *x = copy->x;
  float *to = copy->to + vector->to;
  narrow_piece own[VL]; /* which no store changes */
  __m512i places[VL];
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    own[i] = pieces[i];
    places[i] = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)pieces[i].places));
  }
  for (size_t c = 0; c < channels; c++, x += x_channel, to += channel) {
    __m512 v = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      const __m512 row = _mm512_maskz_loadu_ps(own[i].taken, x + own[i].from);
      v = _mm512_mask_permutexvar_ps(v, own[i].lanes, places[i], row);
    }
    if (part)
      _mm512_mask_storeu_ps(to, stored, v);
    else
      _mm512_storeu_ps(to, v);
  }
}

static void narrow_store(const ert_sparse_copy *copy, const narrow_list *list, size_t channel) {
  const narrow_piece *pieces = list->pieces;
  for (const narrow_vector *v = list->vectors; v < list->vectors + list->count; pieces += v->n, v++) switch (v->n) {
      case 0:
        narrow_put(copy, v, pieces, 0, channel);
        break;
      case 1:
        narrow_put(copy, v, pieces, 1, channel);
        break;
      case 2:
        narrow_put(copy, v, pieces, 2, channel);
        break;
      case 3:
        narrow_put(copy, v, pieces, 3, channel);
        break;
      case 4:
        narrow_put(copy, v, pieces, 4, channel);
        break;
      default:
        narrow_put(copy, v, pieces, (int)v->n, channel);
    }
}

/* Floats of a channel's copy; 0 if runs are not so short that it pays to put them together. */
static size_t narrow_channel(const ert_sparse_copy *copy) {
  size_t channel = 0, longest = 0;
  for (const ert_sparse_run *run = copy->runs; run < copy->runs + copy->n_runs; run++) {
    channel += run->before + run->count + run->after;
    longest = run->count > longest ? run->count : longest;
  }
  const bool pays = copy->line == 0 && copy->n_runs * VL > channel && longest * copy->step <= VL;
  return pays ? channel : 0;
}

/* False if runs are not so short that it pays. */
static bool sparse_copy_narrow(const ert_sparse_copy *copy) {
  narrow_list own, *const list = copy->list ? copy->list : &own;
  if (copy->channels < SPARSE_BESIDE) return false;
  const size_t channel = narrow_channel(copy);
  if (channel == 0) return false;
  if (copy->list && list->count > 0) {
    narrow_store(copy, list, channel);
    return true;
  }
  size_t at = 0, n = 0, listed = 0; /* floats; pieces of this vector, and of all that are listed */
  bool whole = true;
  list->count = 0;
  for (const ert_sparse_run *run = copy->runs; run < copy->runs + copy->n_runs; run++) {
    const size_t begin = run->before, all = begin + run->count + run->after;
    for (size_t i = 0; i < all;) {
      const size_t lane = at % VL, here = all - i < VL - lane ? all - i : VL - lane;
      const size_t first = i > begin ? i : begin, last = i + here < begin + run->count ? i + here : begin + run->count;
      if (first < last)
        list->pieces[listed + n++] = narrow_piece_of(run->from + (ptrdiff_t)((first - begin) * copy->step), copy->step,
                                                     lane + first - i, last - first);
      i += here, at += here;
      if (at % VL != 0 && at < channel) continue;
      const size_t to = (at - 1) / VL * VL;
      list->vectors[list->count++] = (narrow_vector){to, channel - to, n};
      listed += n, n = 0;
      if (list->count < NARROW_VECTORS && listed <= NARROW_PIECES - VL && at < channel) continue;
      narrow_store(copy, list, channel);
      whole = whole && at == channel;
      if (!whole) listed = list->count = 0;
    }
  }
  return true;
}

#endif
