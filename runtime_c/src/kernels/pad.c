/* pad: a tensor with a border of a constant, its edge, its mirror image or its repetition; negative pads crop. */
#include "kernels/rows.h"
#include "kernels/tensor.h"
#include "kernels/walk.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;
static const int64_t LARGEST = (int64_t)1 << 48; /* pads: sums of them and of sizes cannot overflow */
static const char *const pad_modes[] = {"constant", "reflect", "edge", "wrap", NULL};

/* One dimension: output index o stands for position o - begin of an input of n entries, continued as the mode says. */
typedef struct pad_axis {
  int64_t size; /* of the output */
  int64_t begin, n;
  int64_t from; /* stride of the input, elements */
} pad_axis;

typedef struct pad_state {
  pad_axis axes[ERT_MAX_RANK];
  int rank;
  int mode;
  size_t size;   /* bytes of an element */
  int64_t inner; /* contiguous elements of an entry of the last axis, whose entries have no gaps */
  ert_walk rows; /* of the output: the axes before the last, each a dimension */
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

  for (int i = 0; i < x->rank; ++i) state->axes[i].from = ert_stride(x, i);
  /* Trailing dimensions without pads become part of the one before them, unless that has gaps. */
  int rank = x->rank;
  state->inner = 1;
  while (rank > 0 && pads[rank - 1] == 0 && pads[x->rank + rank - 1] == 0) {
    const int64_t inner = state->inner * x->shape[rank - 1];
    if (rank > 1 && (state->axes[rank - 2].from != inner || ert_stride(y, rank - 2) != inner)) break;
    state->inner = inner;
    --rank;
  }
  if (rank == 0) state->axes[rank++] = (pad_axis){.size = 1, .n = 1};
  state->rank = rank;
  state->rows = (ert_walk){.operands = 1, .elements = ert_extent(y, 0, rank - 1)};
  for (int i = 0; i < rank - 1; ++i) ert_walk_push(&state->rows, y->shape[i], (const int64_t[]){ert_stride(y, i)});
  if (rank == 1) ert_walk_push(&state->rows, 1, (const int64_t[]){0});
  p->step->tasks = ert_cut(state->rows.elements, y->elements / state->rows.elements, p->workers);
  return EDGERT_OK;
}

/* Entries [from, to) of a row that do not lie in its middle. */
static void make_border(const pad_state *state, const pad_axis *a, char *y, const char *x, const void *value,
                        int64_t from, int64_t to) {
  size_t bytes = (size_t)state->inner * state->size;
  if (state->mode == PAD_CONSTANT) {
    ert_fill(y + (size_t)from * bytes, value, state->size, (to - from) * state->inner);
    return;
  }
  for (int64_t i = from; i < to; ++i)
    ert_copy_run(y + (size_t)i * bytes, x + (size_t)source_index(a, state->mode, i) * bytes, bytes);
}

static void make_row(const pad_state *state, char *y, const char *x, const void *value, const int64_t *coordinates) {
  int last = state->rank - 1;
  const pad_axis *a = &state->axes[last];
  int64_t from = 0;
  bool outside = false;
  for (int i = last - 1; i >= 0; --i) {
    int64_t index = source_index(&state->axes[i], state->mode, coordinates[i]);
    outside |= index < 0;
    from += index * state->axes[i].from;
  }
  if (outside) {
    ert_fill(y, value, state->size, a->size * state->inner);
    return;
  }
  x += from * (int64_t)state->size;
  size_t bytes = (size_t)state->inner * state->size;
  int64_t begin = ert_clamp64(a->begin, 0, a->size), end = ert_clamp64(a->begin + a->n, begin, a->size);
  make_border(state, a, y, x, value, 0, begin);
  if (begin < end)
    memcpy(y + (size_t)begin * bytes, x + (size_t)(begin - a->begin) * bytes, (size_t)(end - begin) * bytes);
  make_border(state, a, y, x, value, end, a->size);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  static const uint64_t zero = 0;
  const pad_state *state = step->state;
  const ert_tensor *value = step->n_in > 1 ? step->in[1] : NULL;
  int64_t row = ert_cut_at(state->rows.elements, step->tasks, begin);
  const int64_t stop = ert_cut_at(state->rows.elements, step->tasks, end);
  ert_cursor c;
  ert_walk_seek(&state->rows, row, &c);
  for (; row < stop; ++row, ert_walk_advance(&state->rows, &c, 1))
    make_row(state, (char *)step->out[0]->data + (size_t)c.offset[0] * state->size, step->in[0]->data,
             value ? value->data : &zero, c.index);
}

const ert_kernel ert_kernel_pad = {.name = "pad", .prepare = prepare, .run = run, .views = true};
