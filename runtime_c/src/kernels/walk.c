/* Merging the dimensions of tensors, and walking their rows. */
#include "kernels/walk.h"

#include "kernels/rows.h"
#include "kernels/tensor.h"

ert_stored ert_stored_of(const ert_tensor *t) {
  const bool blocks = t->layout == ERT_LAYOUT_BLOCK16;
  ert_stored s = {.rank = t->rank};
  for (int i = 0; i < t->rank; i++) {
    s.shape[i] = t->shape[i];
    s.stride[i] = ert_stride(t, i);
  }
  if (blocks) {
    const int channel = t->rank == 1 ? 0 : 1;
    s.shape[channel] = (s.shape[channel] + 15) / 16;
    s.shape[s.rank] = 16;
    s.stride[s.rank++] = 1;
  }
  return s;
}

/* ---- planning ---- */

static void set_dimension(ert_walk *w, int to, int64_t size, const int64_t *strides) {
  w->shape[to] = size;
  for (int k = 0; k < w->operands; k++) w->stride[k][to] = strides[k];
}

void ert_walk_push(ert_walk *w, int64_t size, const int64_t *strides) { set_dimension(w, w->rank++, size, strides); }

/* Whether dimension i continues with dimension j in every operand. */
static bool continues(const ert_walk *w, int i, int j) {
  for (int k = 0; k < w->operands; k++)
    if (w->stride[k][i] != w->stride[k][j] * w->shape[j]) return false;
  return true;
}

static bool makes_rows(const ert_walk *w, int i, int rows) {
  for (int k = 0; k < rows; k++)
    if (w->stride[k][i] != 0 && w->stride[k][i] != 1) return false;
  return true;
}

void ert_walk_merge(ert_walk *w, int rows) {
  static const int64_t ones[ERT_WALK_OPERANDS] = {1, 1, 1, 1};
  int rank = 0;
  w->elements = 0;
  for (int i = 0; i < w->rank; i++)
    if (w->shape[i] == 0) return;
  w->elements = 1;
  for (int i = 0; i < w->rank; i++) {
    int64_t strides[ERT_WALK_OPERANDS], size = w->shape[i];
    if (size == 1) continue;
    w->elements *= size;
    for (int k = 0; k < w->operands; k++) strides[k] = w->stride[k][i];
    if (rank > 0 && continues(w, rank - 1, i))
      set_dimension(w, rank - 1, w->shape[rank - 1] * size, strides);
    else
      set_dimension(w, rank++, size, strides);
  }
  w->rank = rank;
  if (rank == 0 || !makes_rows(w, rank - 1, rows)) ert_walk_push(w, 1, ones);
}

void ert_walk_over(int operands, const ert_tensor *const *tensors, ert_walk *out) {
  *out = (ert_walk){.operands = operands};
  for (int k = 0; k < operands; k++) {
    const ert_stored t = ert_stored_of(tensors[k]);
    out->rank = t.rank;
    for (int i = 0; i < t.rank; i++) out->shape[i] = t.shape[i], out->stride[k][i] = t.stride[i];
  }
  ert_walk_merge(out, operands);
}

/* ---- walking ---- */

void ert_walk_seek(const ert_walk *w, int64_t at, ert_cursor *c) {
  for (int k = 0; k < w->operands; k++) c->offset[k] = 0;
  for (int i = w->rank - 1; i >= 0; i--) {
    const int64_t rest = i > 0 ? at / w->shape[i] : 0;
    c->index[i] = at - rest * w->shape[i];
    for (int k = 0; k < w->operands; k++) c->offset[k] += c->index[i] * w->stride[k][i];
    at = rest;
  }
}

int64_t ert_walk_part(const ert_walk *w, const ert_step *step, int64_t begin, int64_t end, ert_cursor *c) {
  const int64_t from = ert_cut_element_at(w->elements, step->tasks, begin);
  const int64_t to = ert_cut_element_at(w->elements, step->tasks, end);
  if (from < to) ert_walk_seek(w, from, c);
  return to - from;
}

void ert_walk_next_row(const ert_walk *w, ert_cursor *c) {
  for (int i = w->rank - 1; c->index[i] == w->shape[i];) {
    for (int k = 0; k < w->operands; k++) c->offset[k] -= w->shape[i] * w->stride[k][i];
    c->index[i] = 0;
    if (--i < 0) return;
    for (int k = 0; k < w->operands; k++) c->offset[k] += w->stride[k][i];
    c->index[i]++;
  }
}

int64_t ert_walk_tiles(const ert_walk *w, int64_t tile) {
  if (w->elements == 0) return 0;
  const int64_t row = w->shape[w->rank - 1];
  return w->elements / row * (row / tile + (row % tile != 0));
}

void ert_walk_seek_tile(const ert_walk *w, int64_t tile, int64_t unit, ert_cursor *c) {
  const int64_t row = w->shape[w->rank - 1], tiles = row / tile + (row % tile != 0);
  ert_walk_seek(w, unit / tiles * row + unit % tiles * tile, c);
}

void ert_walk_copy(const ert_walk *w, size_t size, void *dst, const void *src, int64_t from, int64_t to) {
  const int last = w->rank - 1, outer = last - 1;
  const int64_t bytes = (int64_t)size, row = w->shape[last];
  ert_cursor c;
  ert_walk_seek(w, from, &c);
  while (from < to) {
    char *d = (char *)dst + c.offset[0] * bytes;
    const char *s = (const char *)src + c.offset[1] * bytes;
    int64_t n = ert_min64(ert_walk_left(w, &c), to - from), rows = 1;
    if (n == row && outer >= 0) { /* whole rows, as many as one stride reaches */
      rows = ert_min64(w->shape[outer] - c.index[outer], (to - from) / row);
      ert_copy_rows(d, w->stride[0][outer] * bytes, s, w->stride[1][outer] * bytes, rows, (size_t)n * size);
      c.index[outer] += rows - 1;
      for (int k = 0; k < 2; k++) c.offset[k] += (rows - 1) * w->stride[k][outer];
    } else {
      memcpy(d, s, (size_t)n * size);
    }
    ert_walk_advance(w, &c, n);
    from += rows * n;
  }
}
