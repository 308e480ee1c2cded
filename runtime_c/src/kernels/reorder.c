/* reorder: tensors of floats, 32-bit integers or bytes between planar layout and blocks of 16 channels. */
#include <string.h>

#include "kernels/tensor.h"
#include "kernels/transpose.h"
#include "kernels/walk.h"

/* Baseline vectors of four floats exist on every machine: a 4x4 transpose is eight shuffles. */
typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_index __attribute__((vector_size(16)));
#if defined(__clang__)
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (quad_index){i, j, k, l})
#endif

enum { LANES = 16, UNIT = 64 /* pixels of a block in a unit of work; a multiple of 4 */ };

typedef struct reorder_state {
  ert_walk
      walk; /* of blocks' pixels: in the planar tensor, in the blocked one (in pixels), and the block's first channel */
  int64_t lane; /* between the channels of the planar tensor */
  int64_t channels, units;
  bool to_blocks, bytes;
} reorder_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  if (x->dtype != EDGERT_U8 && x->dtype != EDGERT_I32) ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  ERT_TRY(ert_expect_shape(p, y, x->rank, x->shape));
  if (x->rank < 1) return ert_reject(p, "rank", "1 or more", "%d", x->rank);
  void *state;
  ERT_TRY(ert_state(p, sizeof(reorder_state), &state));
  reorder_state *s = state;
  s->bytes = x->dtype == EDGERT_U8;
  s->to_blocks = y->layout == ERT_LAYOUT_BLOCK16;
  ERT_TRY(ert_expect_layout(p, x, s->to_blocks ? ERT_LAYOUT_PLANAR : ERT_LAYOUT_BLOCK16));
  if (!s->to_blocks) ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_PLANAR));
  if (x->elements == 0) return EDGERT_OK;

  const int axis = x->rank == 1 ? 0 : 1;
  const ert_stored blocked = ert_stored_of(s->to_blocks ? y : x), planar = ert_stored_of(s->to_blocks ? x : y);
  s->walk.operands = 3;
  for (int i = 0; i < planar.rank; i++) {
    const int64_t lanes = i == axis ? LANES : 0, stride = planar.stride[i] * (i == axis ? LANES : 1);
    ert_walk_push(&s->walk, blocked.shape[i], (const int64_t[]){stride, blocked.stride[i] / LANES, lanes});
  }
  ert_walk_merge(&s->walk, 2);
  s->lane = planar.stride[axis];
  s->channels = x->shape[axis];
  s->units = ert_walk_tiles(&s->walk, UNIT);
  const int64_t row = s->walk.shape[s->walk.rank - 1];
  p->step->tasks = ert_cut(s->units, ert_min64(row, UNIT) * LANES, p->workers);
  return EDGERT_OK;
}

static inline quad load(const float *p) {
  quad v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* Rows of four floats `from_row` apart become columns `to_row` apart. */
static inline void transpose4(const float *from, int64_t from_row, float *to, int64_t to_row) {
  quad a = load(from), b = load(from + from_row), c = load(from + 2 * from_row), d = load(from + 3 * from_row);
  quad ab_low = SHUFFLE(a, b, 0, 4, 1, 5), ab_high = SHUFFLE(a, b, 2, 6, 3, 7);
  quad cd_low = SHUFFLE(c, d, 0, 4, 1, 5), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
  quad rows[4] = {SHUFFLE(ab_low, cd_low, 0, 1, 4, 5), SHUFFLE(ab_low, cd_low, 2, 3, 6, 7),
                  SHUFFLE(ab_high, cd_high, 0, 1, 4, 5), SHUFFLE(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; i++) memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

/* n floats of each of `lanes` planes, which lie `plane` floats apart, to n pixels of 16 lanes; lanes past those become
 * 0. */
static void to_block(const float *planes, int64_t plane, int64_t lanes, float *block, int64_t n) {
  int64_t lane = 0;
  for (; lane + 4 <= lanes; lane += 4) {
    const float *from = planes + lane * plane;
    float *to = block + lane;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) transpose4(from + i, plane, to + i * LANES, LANES);
    for (; i < n; i++)
      for (int64_t j = 0; j < 4; j++) to[i * LANES + j] = from[j * plane + i];
  }
  for (; lane < LANES; lane++)
    for (int64_t i = 0; i < n; i++) block[i * LANES + lane] = lane < lanes ? planes[lane * plane + i] : 0.0f;
}

static void to_planes(const float *block, int64_t n, float *planes, int64_t plane, int64_t lanes) {
  int64_t lane = 0;
  for (; lane + 4 <= lanes; lane += 4) {
    const float *from = block + lane;
    float *to = planes + lane * plane;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) transpose4(from + i * LANES, LANES, to + i, plane);
    for (; i < n; i++)
      for (int64_t j = 0; j < 4; j++) to[j * plane + i] = from[i * LANES + j];
  }
  for (; lane < lanes; lane++)
    for (int64_t i = 0; i < n; i++) planes[lane * plane + i] = block[i * LANES + lane];
}

static void move_bytes(const reorder_state *s, const uint8_t *x, uint8_t *y, const ert_cursor *c, int64_t n) {
  const int64_t planar = c->offset[0], blocked = c->offset[1] * LANES,
                lanes = ert_min64(s->channels - c->offset[2], LANES);
  if (s->to_blocks)
    ert_transpose(y + blocked, LANES, x + planar, s->lane, n, lanes, 1);
  else
    ert_transpose(y + planar, s->lane, x + blocked, LANES, lanes, n, 1);
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const reorder_state *s = step->state;
  const float *x = step->in[0]->data;
  float *y = step->out[0]->data;
  int64_t unit = ert_cut_at(s->units, step->tasks, begin);
  const int64_t last = ert_cut_at(s->units, step->tasks, end);
  ert_cursor c;
  ert_walk_seek_tile(&s->walk, UNIT, unit, &c);
  for (int64_t n; unit < last; unit++, ert_walk_advance(&s->walk, &c, n)) {
    n = ert_walk_width(&s->walk, &c, UNIT);
    if (s->bytes) {
      move_bytes(s, step->in[0]->data, step->out[0]->data, &c, n);
      continue;
    }
    const int64_t planar = c.offset[0], blocked = c.offset[1] * LANES;
    const int64_t lanes = ert_min64(s->channels - c.offset[2], LANES);
    if (s->to_blocks)
      to_block(x + planar, s->lane, lanes, y + blocked, n);
    else
      to_planes(x + blocked, n, y + planar, s->lane, lanes);
  }
}

const ert_kernel ert_kernel_reorder = {.name = "reorder", .prepare = prepare, .run = run, .views = true};
