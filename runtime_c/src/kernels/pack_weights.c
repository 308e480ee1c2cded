/* pack_weights: convolution weights that are only known at run time, planar to WEIGHT16. */
#include "kernels/tensor.h"

enum { LANES = 16 };

typedef struct pack_state {
  int64_t outputs, channels, taps;
  int64_t blocks; /* of 16 outputs, over all groups */
} pack_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_WEIGHT16));
  ERT_TRY(ert_expect_shape(p, y, x->rank, x->shape));
  if (x->rank < 3) return ert_reject(p, "rank", "3 or more (group, outputs, channels, kernel)", "%d", x->rank);
  void *state;
  ERT_TRY(ert_state(p, sizeof(pack_state), &state));
  pack_state *s = state;
  s->outputs = x->shape[1];
  s->channels = x->shape[2];
  s->taps = ert_extent(x, 3, x->rank);
  s->blocks = x->elements == 0 ? 0 : x->shape[0] * ((s->outputs + LANES - 1) / LANES);
  p->step->tasks = ert_cut(s->blocks, LANES * s->channels * s->taps, p->workers);
  return EDGERT_OK;
}

/* One block: for each block of up to 16 channels, each tap, each channel of the block, the 16 outputs. */
static void pack(const pack_state *s, const float *x, int64_t lanes, float *y) {
  for (int64_t first = 0; first < s->channels; first += LANES) {
    const int64_t width = ert_min64(s->channels - first, LANES);
    for (int64_t tap = 0; tap < s->taps; tap++)
      for (int64_t c = first; c < first + width; c++, y += LANES)
        for (int64_t lane = 0; lane < LANES; lane++)
          y[lane] = lane < lanes ? x[(lane * s->channels + c) * s->taps + tap] : 0.0f;
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const pack_state *s = step->state;
  const float *x = step->in[0]->data;
  float *y = step->out[0]->data;
  const int64_t per_group = (s->outputs + LANES - 1) / LANES, row = s->channels * s->taps;
  begin = ert_cut_at(s->blocks, step->tasks, begin);
  end = ert_cut_at(s->blocks, step->tasks, end);
  for (int64_t block = begin; block < end; block++) {
    const int64_t output = block % per_group * LANES;
    const float *from = x + (block / per_group * s->outputs + output) * row;
    pack(s, from, ert_min64(s->outputs - output, LANES), y + block * LANES * row);
  }
}

const ert_kernel ert_kernel_pack_weights = {.name = "pack_weights", .prepare = prepare, .run = run};
