/* Copies inputs to the lines that sparse inner loops read: vector by vector as they are listed, once for all channels. Where
 * rows are read in steps of two, and another run has the floats between, both are taken from the same loads. */
#ifndef ERT_KERNELS_SIMD_F32_SPARSE_COPY_H
#define ERT_KERNELS_SIMD_F32_SPARSE_COPY_H

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Every second lane of two vectors, and the others. */
#if defined(__x86_64__) && ERT_VECTOR_BYTES == 64
ERT_INLINE vf sparse_even(vf a, vf b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return (vf)_mm512_permutex2var_ps((__m512)a, even, (__m512)b);
}
ERT_INLINE vf sparse_odd(vf a, vf b) {
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return (vf)_mm512_permutex2var_ps((__m512)a, odd, (__m512)b);
}
#elif defined(__x86_64__) && ERT_VECTOR_BYTES == 32
ERT_INLINE vf sparse_even(vf a, vf b) {
  return (vf)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88), 0xd8);
}
ERT_INLINE vf sparse_odd(vf a, vf b) {
  return (vf)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd), 0xd8);
}
#elif defined(__x86_64__)
ERT_INLINE vf sparse_even(vf a, vf b) { return (vf)_mm_shuffle_ps((__m128)a, (__m128)b, 0x88); }
ERT_INLINE vf sparse_odd(vf a, vf b) { return (vf)_mm_shuffle_ps((__m128)a, (__m128)b, 0xdd); }
#else
ERT_INLINE vf sparse_even(vf a, vf b) { return (vf)vuzp1q_f32((float32x4_t)a, (float32x4_t)b); }
ERT_INLINE vf sparse_odd(vf a, vf b) { return (vf)vuzp2q_f32((float32x4_t)a, (float32x4_t)b); }
#endif

/* Two neighbouring vectors, of which the first `floats` are there. */
ERT_INLINE vf sparse_low(const float *from, size_t floats) {
  return floats < VL ? vload_part(from, floats) : vload(from);
}
ERT_INLINE vf sparse_high(const float *from, size_t floats) {
  return vload_part(from + VL, floats < VL ? 0 : floats - VL);
}

/* Of floats `step` apart the first n, at most VL, and zeros behind them. */
ERT_INLINE vf sparse_take(const float *from, size_t step, size_t n) {
  if (n == 0) return vzero();
  if (step == 1) return n == VL ? vload(from) : vload_part(from, n);
  if (step == 2) return sparse_even(sparse_low(from, 2 * n - 1), sparse_high(from, 2 * n - 1));
  float taken[VL] = {0};
  for (size_t i = 0; i < n; i++) taken[i] = from[i * step];
  return vload(taken);
}

/* Where a vector of what is copied of each channel goes: so many floats that are taken, and zeros behind them. What is written
 * behind these is overwritten later, but for what lies beyond `room`. */
typedef struct sparse_place {
  size_t to;
  uint8_t taken, room;
} sparse_place;

/* What it is taken from; and where the floats between those go, if another run has them. */
typedef struct sparse_part {
  ptrdiff_t from;
  sparse_place own, between;
} sparse_part;

/* The parts of runs, in order; none: not listed yet. */
enum { SPARSE_PARTS = 200 }; /* that are listed at once */
typedef struct sparse_list {
  size_t count;
  sparse_part parts[SPARSE_PARTS];
} sparse_list;
_Static_assert(sizeof(sparse_list) <= ERT_SPARSE_LIST, "a list fits where it is kept");

/* A stretch of runs, up to which float of one parts are listed, and where that and the stretch begin and end in a channel's
 * copy. */
typedef struct sparse_stretch {
  size_t run, end_run, i, begin, end;
} sparse_stretch;

ERT_INLINE size_t sparse_run_floats(const ert_sparse_copy *copy, const ert_sparse_run *run) {
  return copy->line > 0 ? copy->apart : run->before + run->count + run->after;
}

static sparse_stretch sparse_stretch_of(const ert_sparse_copy *copy, size_t run, size_t end_run, size_t begin) {
  sparse_stretch s = {run, end_run, 0, begin, begin};
  for (; run < end_run; run++) s.end += sparse_run_floats(copy, copy->runs + run);
  return s;
}

/* The first vector of n floats. */
ERT_INLINE uint8_t sparse_vector_of(size_t n) { return (uint8_t)(n < VL ? n : VL); }

/* The next part; false if there is none. */
static bool sparse_next_part(const ert_sparse_copy *copy, sparse_stretch *s, sparse_part *part) {
  for (; s->run < s->end_run; s->run++, s->i = 0) {
    const ert_sparse_run *run = copy->runs + s->run;
    const size_t end = run->before + run->count, i = s->i, to = s->begin + i;
    if (i < end + run->after) {
      *part = (sparse_part){.own = {to, 0, sparse_vector_of(s->end - to)}};
      s->i += VL;
      if (i < run->before) {
        if (s->i > run->before) s->i = run->before;
      } else if (i < end) {
        part->from = run->from + (ptrdiff_t)((i - run->before) * copy->step);
        part->own.taken = sparse_vector_of(end - i);
      }
      return true;
    }
    s->begin += sparse_run_floats(copy, run);
  }
  return false;
}

/* How many runs behind run number `at` those begin that read the floats between what it and its next ones read; 0 if none
 * do. */
static size_t sparse_runs_between(const ert_sparse_copy *copy, size_t at) {
  const ert_sparse_run *const runs = copy->runs;
  if (copy->step != 2) return 0;
  size_t first = at;
  while (first < copy->n_runs && runs[first].count == 0) first++;
  for (size_t i = first + 1; i < copy->n_runs && at + 2 * (i - first) <= copy->n_runs; i++) {
    const ptrdiff_t on = runs[i].from - runs[first].from;
    if (runs[i].count > 0 && (on == 1 || on == -1)) return i - first;
  }
  return 0;
}

/* What is to be listed: a stretch, and one of as many runs behind it that may read the floats between. */
typedef struct sparse_listed {
  sparse_stretch own, between;
  bool has_own, has_between;
  sparse_part next_own, next_between;
} sparse_listed;

static void sparse_list_from(const ert_sparse_copy *copy, sparse_listed *l, size_t run, size_t begin) {
  const size_t between = sparse_runs_between(copy, run);
  l->own = sparse_stretch_of(copy, run, between > 0 ? run + between : copy->n_runs, begin);
  l->between = sparse_stretch_of(copy, l->own.end_run, l->own.end_run + between, l->own.end);
  l->has_own = sparse_next_part(copy, &l->own, &l->next_own);
  l->has_between = sparse_next_part(copy, &l->between, &l->next_between);
}

/* Whether a part is of the floats between those of another, which is as long, or one float longer: of a shorter one others
 * would be taken for the zeros behind it. */
static bool sparse_lies_between(const sparse_part *part, const sparse_part *other) {
  return part->own.taken > 0 && part->from - other->from == 1 &&
         (other->own.taken == part->own.taken || other->own.taken == part->own.taken + 1);
}

/* The next parts; false if that was the last of them. Each stretch's own are in order. */
static bool sparse_list_parts(const ert_sparse_copy *copy, sparse_listed *l, sparse_list *list) {
  for (list->count = 0; list->count < SPARSE_PARTS;) {
    if (!l->has_own && !l->has_between) {
      if (l->between.end_run == copy->n_runs) return false;
      sparse_list_from(copy, l, l->between.end_run, l->between.end);
      continue;
    }
    const bool both = l->has_own && l->has_between;
    const bool behind = both && sparse_lies_between(&l->next_between, &l->next_own);
    const bool before = both && sparse_lies_between(&l->next_own, &l->next_between);
    bool own = l->has_own, between = !own;
    sparse_part *part = list->parts + list->count++;
    if (behind || before) {
      *part = behind ? l->next_own : l->next_between;
      part->between = behind ? l->next_between.own : l->next_own.own;
      between = true;
    } else {
      /* Zeros go first, so that both stay level. */
      if (both && l->next_own.own.taken > 0 && l->next_between.own.taken == 0) own = false, between = true;
      *part = own ? l->next_own : l->next_between;
    }
    if (own) l->has_own = sparse_next_part(copy, &l->own, &l->next_own);
    if (between) l->has_between = sparse_next_part(copy, &l->between, &l->next_between);
  }
  return true;
}

ERT_INLINE void sparse_put_part(float *to, vf v, size_t room) {
  if (room < VL)
    vstore_part(to, v, room);
  else
    vstore(to, v);
}

/* Of n neighbouring channels, each of which gets `channel` floats. */
ERT_INLINE void sparse_copy_part(const ert_sparse_copy *copy, const sparse_part *part, const float *x, float *to,
                                 size_t channel, size_t n) {
  const sparse_place own = part->own, between = part->between;
  x += part->from;
  if (between.taken > 0) {
    const size_t floats = own.taken > between.taken ? 2u * own.taken - 1 : 2u * between.taken;
    for (size_t c = 0; c < n; c++, x += copy->x_channel, to += channel) {
      const vf low = sparse_low(x, floats), high = sparse_high(x, floats);
      sparse_put_part(to + own.to, sparse_even(low, high), own.room);
      sparse_put_part(to + between.to, sparse_odd(low, high), between.room);
    }
    return;
  }
  to += own.to;
  if (copy->step == 1)
    for (size_t c = 0; c < n; c++, x += copy->x_channel, to += channel)
      sparse_put_part(to, sparse_take(x, 1, own.taken), own.room);
  else if (copy->step == 2)
    for (size_t c = 0; c < n; c++, x += copy->x_channel, to += channel)
      sparse_put_part(to, sparse_take(x, 2, own.taken), own.room);
  else
    for (size_t c = 0; c < n; c++, x += copy->x_channel, to += channel)
      sparse_put_part(to, sparse_take(x, copy->step, own.taken), own.room);
}

/* A run in whole vectors. What is written behind it is overwritten later. */
ERT_INLINE void sparse_copy_run(const ert_sparse_run *run, const float *from, size_t step, float *to) {
  const float *const end = to + run->before + run->count + run->after;
  size_t left = run->count;
  for (size_t i = 0; i < run->before; i += VL) vstore(to + i, vzero());
  for (to += run->before; left >= VL; left -= VL, to += VL, from += VL * step) vstore(to, sparse_take(from, step, VL));
  if (left > 0) vstore(to, sparse_take(from, step, left)), to += VL;
  for (; to < end; to += VL) vstore(to, vzero());
}

/* Channel by channel, run by run. */
static void sparse_copy_few(const ert_sparse_copy *copy) {
  const ert_sparse_run *const end = copy->runs + copy->n_runs;
  const float *x = copy->x;
  float *to = copy->to;
  for (size_t c = 0; c < copy->channels; c++, x += copy->x_channel)
    for (const ert_sparse_run *run = copy->runs; run < end; run++) {
      if (copy->step == 1)
        sparse_copy_run(run, x + run->from, 1, to);
      else if (copy->step == 2)
        sparse_copy_run(run, x + run->from, 2, to);
      else
        sparse_copy_run(run, x + run->from, copy->step, to);
      to += run->before + run->count + run->after;
    }
}

enum { SPARSE_BESIDE = 4 }; /* channels that are copied beside each other */

#if ERT_VECTOR_BYTES == 64
#include "kernels/simd/f32-sparse-narrow.h"
#else
static bool sparse_copy_narrow(const ert_sparse_copy *copy) { return (void)copy, false; }
#endif

/* Copies of `channel` floats. */
static void sparse_copy_parts(const ert_sparse_copy *copy, const sparse_list *list, size_t channel) {
  const sparse_part *const end = list->parts + list->count;
  const float *x = copy->x;
  float *to = copy->to;
  size_t left = copy->channels;
  for (; left >= SPARSE_BESIDE; left -= SPARSE_BESIDE) {
    for (const sparse_part *p = list->parts; p < end; p++) sparse_copy_part(copy, p, x, to, channel, SPARSE_BESIDE);
    x += SPARSE_BESIDE * copy->x_channel, to += SPARSE_BESIDE * channel;
  }
  for (const sparse_part *p = list->parts; p < end && left > 0; p++) sparse_copy_part(copy, p, x, to, channel, left);
}

/* Part by part, so that what a vector takes is found once for all channels; unless they are few. */
static void sparse_copy(const ert_sparse_copy *copy) {
  if (sparse_copy_narrow(copy)) return;
  if (copy->channels < SPARSE_BESIDE && copy->line == 0) {
    sparse_copy_few(copy);
    return;
  }
  size_t channel = copy->line;
  for (size_t r = 0; copy->line == 0 && r < copy->n_runs; r++) channel += sparse_run_floats(copy, copy->runs + r);
  sparse_list own, *const list = copy->list ? copy->list : &own;
  if (copy->list && list->count > 0) {
    sparse_copy_parts(copy, list, channel);
    return;
  }
  sparse_listed listed = {0};
  sparse_list_from(copy, &listed, 0, 0);
  bool more = true;
  for (size_t n = 0; more; n++) {
    more = sparse_list_parts(copy, &listed, list);
    sparse_copy_parts(copy, list, channel);
    if (more || n > 0) list->count = 0; /* it is not all of them */
  }
}

#endif
