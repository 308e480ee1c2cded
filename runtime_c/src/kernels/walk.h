/* Elements of several tensors visited together: dimensions merged once by the strides of all, then walked as rows. */
#ifndef ERT_KERNELS_WALK_H
#define ERT_KERNELS_WALK_H

#include "base/kernel.h"

enum { ERT_WALK_RANK = ERT_MAX_RANK + 1, ERT_WALK_OPERANDS = 4 };

/* A tensor as it is stored, PLANAR or BLOCK16; blocks of 16 have their lanes as one more dimension, the last. */
typedef struct ert_stored {
  int rank;
  int64_t shape[ERT_WALK_RANK], stride[ERT_WALK_RANK]; /* in elements */
} ert_stored;

ert_stored ert_stored_of(const ert_tensor *t);

/* What is visited, in row-major order over `shape`: an offset in each operand that grows by its strides. A row is the
 * innermost dimension; compact operands of one shape are a single row. */
typedef struct ert_walk {
  int rank, operands;
  int64_t elements;
  int64_t shape[ERT_WALK_RANK];
  int64_t stride[ERT_WALK_OPERANDS][ERT_WALK_RANK];
} ert_walk;

/* Adds an innermost dimension, with a stride for each operand. */
void ert_walk_push(ert_walk *w, int64_t size, const int64_t *strides);

/* Merges the dimensions there are, and counts the elements. Rows have strides 0 or 1 in the first `rows` operands:
 * where the innermost dimension has others, every element is a row. A walk has at least one dimension, unless it is empty. */
void ert_walk_merge(ert_walk *w, int rows);

/* The walk over tensors of one stored shape, contiguous rows of all; empty if they are. */
void ert_walk_over(int operands, const ert_tensor *const *tensors, ert_walk *out);

/* ---- walking ---- */

typedef struct ert_cursor {
  int64_t index[ERT_WALK_RANK];
  int64_t offset[ERT_WALK_OPERANDS]; /* of the current element */
} ert_cursor;

/* To the first element. */
static inline void ert_walk_start(const ert_walk *w, ert_cursor *c) {
  for (int i = 0; i < w->rank; i++) c->index[i] = 0;
  for (int k = 0; k < ERT_WALK_OPERANDS; k++) c->offset[k] = 0;
}

/* To flat element `at`. */
void ert_walk_seek(const ert_walk *w, int64_t at, ert_cursor *c);

/* To the first of the elements that a step's tasks [begin, end) are, as ert_cut_elements cuts them; returns how many. */
int64_t ert_walk_part(const ert_walk *w, const ert_step *step, int64_t begin, int64_t end, ert_cursor *c);

/* From the end of a row to the start of the next. */
void ert_walk_next_row(const ert_walk *w, ert_cursor *c);

/* What is left of the row, the current element included. */
static inline int64_t ert_walk_left(const ert_walk *w, const ert_cursor *c) {
  return w->shape[w->rank - 1] - c->index[w->rank - 1];
}

/* `n` elements on, at most to the start of the next row; after the last row, back to the first. */
static inline void ert_walk_advance(const ert_walk *w, ert_cursor *c, int64_t n) {
  const int last = w->rank - 1;
  for (int k = 0; k < w->operands; k++) c->offset[k] += n * w->stride[k][last];
  c->index[last] += n;
  if (c->index[last] == w->shape[last]) ert_walk_next_row(w, c);
}

/* Rows in tiles of at most `tile` elements: how many there are; to the start of tile `unit`; and how wide the tile that
 * starts here is, which is what to advance by to the next. */
int64_t ert_walk_tiles(const ert_walk *w, int64_t tile);
void ert_walk_seek_tile(const ert_walk *w, int64_t tile, int64_t unit, ert_cursor *c);
static inline int64_t ert_walk_width(const ert_walk *w, const ert_cursor *c, int64_t tile) {
  const int64_t left = ert_walk_left(w, c);
  return left < tile ? left : tile;
}

/* Copies flat elements [from, to), of `size` bytes, of operand 1 to operand 0. Rows are contiguous in both. */
void ert_walk_copy(const ert_walk *w, size_t size, void *dst, const void *src, int64_t from, int64_t to);

#endif
