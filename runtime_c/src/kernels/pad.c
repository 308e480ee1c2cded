/* pad: a tensor with a border of a constant, its edge, its mirror image or its repetition; negative pads crop. */
#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;
static const int64_t LARGEST = (int64_t)1 << 48; /* pads: sums of them and of sizes cannot overflow */
enum { NEAR = 16 * 1024 };                       /* bytes of rows whose middles are written before their borders */
static const char *const pad_modes[] = {"constant", "reflect", "edge", "wrap", NULL};

/* One dimension: output index o stands for position o - begin of an input of n entries, continued as the mode says. */
typedef struct pad_axis {
  int64_t size; /* of the output */
  int64_t begin, n;
  int64_t from; /* stride of the input, elements */
} pad_axis;

typedef struct pad_state {
  pad_axis axes[ERT_MAX_RANK + 1]; /* at least two: the last two are planes of rows */
  int rank;
  int mode;
  size_t size;      /* bytes of an element */
  size_t bytes;     /* of an entry of the last axis, whose entries are contiguous and have no gaps */
  int64_t inner;    /* elements of such an entry */
  int64_t row;      /* stride of the output's rows, elements */
  int64_t together; /* rows that are near each other */
  ert_walk planes;  /* of the output: the axes before the last two, each a dimension */
} pad_state;

/* Source index along one axis, -1 for the constant. */
static int64_t source_index(const pad_axis *a, int mode, int64_t output) {
  int64_t i = output - a->begin, n = a->n;
  if (i >= 0 && i < n) return i;
  if (mode == PAD_CONSTANT) return -1;
  if (mode == PAD_EDGE || n == 1) return ert_clamp64(i, 0, n - 1);
  int64_t period = mode == PAD_WRAP ? n : 2 * (n - 1);
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - i;
}

static edgert_status plan_axis(ert_prepare *p, int64_t n, int64_t begin, int64_t end, int64_t size, int mode,
                               pad_axis *out) {
  int64_t sum;
  if (__builtin_add_overflow(n, begin, &sum) || __builtin_add_overflow(sum, end, &sum) || sum != size)
    return ert_reject(p, "shape of the output", "the input's with the pads added", "%lld in one dimension",
                      (long long)size);
  if (mode != PAD_CONSTANT && n == 0 && size > 0)
    return ert_reject(p, "input", "an entry to repeat", "an empty dimension");
  *out = (pad_axis){.size = size, .begin = begin, .n = n};
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *y = step->out[0], *value = step->n_in > 1 ? step->in[1] : NULL;
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  if (value) ERT_TRY(ert_expect_dtype(p, value, (edgert_dtype)x->dtype));
  if (value && value->elements != 1) return ert_reject(p, "value", "one element", "%lld", (long long)value->elements);
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  const int64_t *pads;
  int mode;
  ERT_TRY(ert_ints(p, "pads", 2u * x->rank, -LARGEST, LARGEST, &pads));
  ERT_TRY(ert_choice(p, "mode", pad_modes, &mode));

  void *memory;
  ERT_TRY(ert_state(p, sizeof(pad_state), &memory));
  pad_state *state = memory;
  state->mode = mode;
  state->size = ert_dtype_bytes(x->dtype);
  for (int i = 0; i < x->rank; ++i)
    ERT_TRY(plan_axis(p, x->shape[i], pads[i], pads[x->rank + i], y->shape[i], mode, &state->axes[i]));
  if (y->elements == 0) return EDGERT_OK;

  int64_t to[ERT_MAX_RANK + 1]; /* strides of the output */
  for (int i = 0; i < x->rank; ++i) state->axes[i].from = ert_stride(x, i), to[i] = ert_stride(y, i);
  /* Trailing dimensions without pads become part of the one before them, unless that has gaps. */
  int rank = x->rank;
  state->inner = 1;
  while (rank > 0 && pads[rank - 1] == 0 && pads[x->rank + rank - 1] == 0) {
    const int64_t inner = state->inner * x->shape[rank - 1];
    if (rank > 1 && (state->axes[rank - 2].from != inner || to[rank - 2] != inner)) break;
    state->inner = inner;
    --rank;
  }
  for (; rank < 2; ++rank) { /* dimensions of one entry before the others */
    memmove(state->axes + 1, state->axes, (size_t)rank * sizeof *state->axes);
    state->axes[0] = (pad_axis){.size = 1, .n = 1};
    to[0] = 0; /* of those behind it, only the last one is left, whose entries have no gaps */
  }
  const pad_axis *last = &state->axes[rank - 1];
  state->rank = rank;
  state->bytes = (size_t)state->inner * state->size;
  state->row = to[rank - 2];
  state->together = ert_max64(1, NEAR / (last->size * (int64_t)state->bytes));
  state->planes = (ert_walk){.operands = 1, .elements = 1};
  for (int i = 0; i < rank - 2; ++i) {
    ert_walk_push(&state->planes, state->axes[i].size, &to[i]);
    state->planes.elements *= state->axes[i].size;
  }
  if (rank == 2) ert_walk_push(&state->planes, 1, (const int64_t[]){0});
  const int64_t rows = state->planes.elements * state->axes[rank - 2].size;
  p->step->tasks = ert_cut(rows, y->elements / rows, p->workers);
  return EDGERT_OK;
}

/* Entries [from, to) of rows, which do not lie in their middles. */
static void make_borders(const pad_state *s, char *y, const char *x, const void *value, int64_t rows, int64_t from,
                         int64_t to) {
  const pad_axis *a = &s->axes[s->rank - 1];
  const ptrdiff_t y_row = s->row * (int64_t)s->size, x_row = a[-1].from * (int64_t)s->size;
  if (s->mode == PAD_CONSTANT) {
    ert_fill_rows(y + (size_t)from * s->bytes, y_row, value, s->size, rows, (to - from) * s->inner);
    return;
  }
  for (int64_t i = from; i < to; ++i)
    ert_copy_rows(y + (size_t)i * s->bytes, y_row, x + (size_t)source_index(a, s->mode, i) * s->bytes, x_row, rows,
                  s->bytes);
}

/* Rows of the output made from as many of the input. */
static void make_rows(const pad_state *s, char *y, const char *x, const void *value, int64_t rows) {
  const pad_axis *a = &s->axes[s->rank - 1];
  const ptrdiff_t y_row = s->row * (int64_t)s->size, x_row = a[-1].from * (int64_t)s->size;
  const int64_t begin = ert_clamp64(a->begin, 0, a->size), end = ert_clamp64(a->begin + a->n, begin, a->size);
  for (int64_t n; rows > 0; rows -= n, y += n * y_row, x += n * x_row) {
    n = ert_min64(rows, s->together);
    if (begin < end)
      ert_copy_rows(y + (size_t)begin * s->bytes, y_row, x + (size_t)(begin - a->begin) * s->bytes, x_row, n,
                    (size_t)(end - begin) * s->bytes);
    make_borders(s, y, x, value, n, 0, begin);
    make_borders(s, y, x, value, n, end, a->size);
  }
}

/* Rows [row, end) of the plane at the cursor. */
static void make_plane(const pad_state *s, char *y, const char *x, const void *value, const ert_cursor *plane,
                       int64_t row, int64_t end) {
  const pad_axis *a = &s->axes[s->rank - 2];
  int64_t first = 0; /* of the plane in the input */
  bool outside = false;
  for (int i = s->rank - 3; i >= 0; --i) {
    const int64_t index = source_index(&s->axes[i], s->mode, plane->index[i]);
    outside |= index < 0;
    first += index * s->axes[i].from;
  }
  for (int64_t n; row < end; row += n) {
    const int64_t index = outside ? -1 : source_index(a, s->mode, row);
    const bool middle = row >= a->begin && row < a->begin + a->n;
    n = middle ? ert_min64(end, a->begin + a->n) - row : 1;
    char *to = y + (plane->offset[0] + row * s->row) * (int64_t)s->size;
    if (index < 0)
      ert_fill_rows(to, s->row * (int64_t)s->size, value, s->size, n, a[1].size * s->inner);
    else
      make_rows(s, to, x + (first + index * a->from) * (int64_t)s->size, value, n);
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  static const uint64_t zero = 0;
  const pad_state *state = step->state;
  const ert_tensor *value = step->n_in > 1 ? step->in[1] : NULL;
  const int64_t height = state->axes[state->rank - 2].size, rows = state->planes.elements * height;
  int64_t row = ert_cut_at(rows, step->tasks, begin);
  const int64_t stop = ert_cut_at(rows, step->tasks, end);
  ert_cursor plane;
  ert_walk_seek(&state->planes, row / height, &plane);
  for (int64_t n; row < stop; row += n, ert_walk_advance(&state->planes, &plane, 1)) {
    const int64_t first = row % height;
    n = ert_min64(stop - row, height - first);
    make_plane(state, step->out[0]->data, step->in[0]->data, value ? value->data : &zero, &plane, first, first + n);
  }
}

const ert_kernel ert_kernel_pad = {.name = "pad", .prepare = prepare, .run = run, .views = true};
