/* Pooling planar rows by vectors: bands of rows of outputs, of as many channels as follow one another. */
#include "kernels/pool_planar.h"

#include "kernels/tensor.h"

enum {
  LINE_FLOATS = 32 * 1024, /* of a line that some windows cover, at most */
  BAND_FLOATS = 2 * 1024,  /* of the lines of a band of several rows, two of which stay in the first cache */
};

static int64_t round_up(int64_t n) { return (n + 15) / 16 * 16; }

/* Floats that the windows of so many outputs cover. */
static int64_t reach_of(const ert_pool_axis *a, int64_t outputs) {
  return (outputs - 1) * a->stride + (a->kernel - 1) * a->dilation + 1;
}

bool ert_pool_planar_plan(const ert_pool_shape *s, int64_t images, ert_pool_plan *plan, float *divisors) {
  const ert_pool_axis *w = &s->axis[2];
  const int64_t window = reach_of(w, 1), all = s->axis[0].out * s->axis[1].out;
  if (window > LINE_FLOATS) return false;
  plan->columns = ert_min64((LINE_FLOATS - window) / w->stride + 1, w->out);
  plan->pitch = round_up(reach_of(w, plan->columns)) + 32; /* whole vectors before the input and behind it */
  const int64_t rows = ert_max64(BAND_FLOATS / plan->pitch, 1);
  plan->bands = (all + rows - 1) / rows;
  plan->rows = (all + plan->bands - 1) / plan->bands;
  plan->units = images * plan->bands * s->channels;
  for (int64_t o = 0; o < w->out; o++) divisors[o] = (float)ert_max64(ert_pool_span_at(s, 2, o).divisor, 1);
  const int64_t floats = 2 * plan->rows * plan->pitch + ERT_SLIDE_SLACK + ert_pool_divisors(round_up(plan->columns));
  plan->scratch_bytes = (size_t)floats * sizeof(float) + (size_t)plan->rows * sizeof(ert_pool_row);
  return true;
}

/* Outputs [from, to) of the rows of a band. */
static void run_columns(const ert_pool_shape *s, const float *divisors, const ert_simd *simd, ert_pool_planar *p,
                        int64_t from, int64_t to) {
  const ert_pool_axis *w = &s->axis[2];
  const int64_t first = from * w->stride - w->begin, reach = reach_of(w, to - from);
  const int64_t left = ert_clamp64(-first, 0, reach), right = ert_clamp64(w->in - first, left, reach);
  const float *x = p->x;
  float *y = p->y, *lines = p->lines;
  if (left < right) p->x += first + left;
  p->y += from;
  p->lines += round_up(left) - left;
  p->columns = (size_t)(right - left);
  p->before = (size_t)left;
  p->divisors = divisors + from;
  p->n = (size_t)(to - from);
  p->joined =
      p->n_rows == 1 || (to - from == s->y.row && (s->axis[0].out == 1 || s->y.plane == s->y.row * s->axis[1].out));
  simd->pool_planar(p);
  p->x = x, p->y = y, p->lines = lines;
}

void ert_pool_planar_run(const ert_pool_shape *s, const ert_pool_plan *plan, const float *divisors,
                         const ert_simd *simd, const float *x, float *y, int64_t begin, int64_t end, void *scratch) {
  const ert_pool_axis *a = s->axis;
  const int64_t all = a[0].out * a[1].out;
  ert_pool_row *rows = scratch;
  float *factors = (float *)(rows + plan->rows);
  float *lines = factors + ert_pool_divisors(round_up(plan->columns));
  lines += (64 - (uintptr_t)lines % 64) % 64 / sizeof(float);
  for (int64_t unit = begin, channels; unit < end; unit += channels) {
    const int64_t channel = unit % s->channels, band = unit / s->channels % plan->bands;
    const int64_t image = unit / s->channels / plan->bands;
    const int64_t top = ert_cut_at(all, plan->bands, band), bottom = ert_cut_at(all, plan->bands, band + 1);
    channels = ert_min64(end - unit, s->channels - channel);
    for (int64_t r = top; r < bottom; r++) {
      const int64_t d = r / a[1].out, h = r % a[1].out;
      const ert_pool_span depth = ert_pool_span_at(s, 0, d), height = ert_pool_span_at(s, 1, h);
      const bool none = depth.count == 0 || height.count == 0;
      rows[r - top] = (ert_pool_row){
          .x = none ? 0 : (ptrdiff_t)ert_position(&s->x, 0, depth.first, height.first, 0),
          .y = (ptrdiff_t)ert_position(&s->y, 0, d, h, 0),
          .count = {(size_t)depth.count, (size_t)height.count},
          .divisor = (float)ert_max64(depth.divisor, 1) * (float)ert_max64(height.divisor, 1),
      };
    }
    ert_pool_planar p = {
        .average = s->kind == ERT_POOL_AVERAGE,
        .x = x + image * s->x.image + channel * s->x.channel,
        .x_channel = (ptrdiff_t)s->x.channel,
        .x_stride = {(ptrdiff_t)(a[0].dilation * s->x.plane), (ptrdiff_t)(a[1].dilation * s->x.row)},
        .rows = rows,
        .n_rows = (size_t)(bottom - top),
        .channels = (size_t)channels,
        .taps = (size_t)a[2].kernel,
        .step = (size_t)a[2].stride,
        .tap = (ptrdiff_t)a[2].dilation,
        .factors = factors,
        .lines = lines,
        .pitch = (size_t)plan->pitch,
        .y = y + image * s->y.image + channel * s->y.channel,
        .y_channel = (ptrdiff_t)s->y.channel,
    };
    for (int64_t o = 0; o < a[2].out; o += plan->columns)
      run_columns(s, divisors, simd, &p, o, ert_min64(o + plan->columns, a[2].out));
  }
}
