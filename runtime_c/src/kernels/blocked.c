/* Where activations of either layout lie, and moving their channels to and from blocks of 16 in scratch. */
#include "kernels/blocked.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/tensor.h"
#include "kernels/transpose.h"

edgert_status ert_expect_activations(const ert_prepare *p, const ert_tensor *t) {
  if (t->layout == ERT_LAYOUT_PLANAR || t->layout == ERT_LAYOUT_BLOCK16) return EDGERT_OK;
  return ert_reject(p, "layout of activations", "planar or blocks of 16", "%d", t->layout);
}

edgert_status ert_expect_whole(const ert_prepare *p, const ert_tensor *w, int first) {
  for (int d = first; d < w->rank; d++)
    if (w->shape[d] != w->whole[d])
      return ert_reject(p, "view of packed weights", "whole kernels", "%" PRId64 " of %" PRId64 " taps", w->shape[d],
                        w->whole[d]);
  return EDGERT_OK;
}

ert_strides ert_strides_of(const ert_tensor *t) {
  const int last = t->rank - 1;
  return (ert_strides){
      .image = ert_stride(t, 0),
      .channel = ert_stride(t, 1),
      .plane = last > 3 ? ert_stride(t, last - 2) : 0,
      .row = last > 2 ? ert_stride(t, last - 1) : 0,
      .column = ert_stride(t, last),
      .blocked = t->layout == ERT_LAYOUT_BLOCK16,
  };
}

void ert_strides_of_step(const ert_step *step, uint32_t residual, ert_strides *x, ert_strides *y, ert_strides *added) {
  const bool adds = step->n_in > residual && step->in[residual];
  *x = ert_strides_of(step->in[0]);
  *y = ert_strides_of(step->out[0]);
  *added = adds ? ert_strides_of(step->in[residual]) : *y;
}

bool ert_positions_joined(const ert_strides *s, const int64_t extent[3]) {
  return (extent[1] == 1 || s->row == extent[2] * s->column) &&
         (extent[0] == 1 || s->plane == extent[1] * extent[2] * s->column);
}

/* The run of channels that starts `done` channels into the range and stays within one block on both sides. */
static int64_t run_length(const ert_strides *s, int64_t first, int64_t done, int64_t count) {
  const int64_t here = ert_min64(count - done, 16 - done % 16);
  return s->blocked ? ert_min64(here, 16 - (first + done) % 16) : here;
}

static int64_t channel_at(const ert_strides *s, int64_t channel) {
  return s->blocked ? channel / 16 * s->channel + channel % 16 : channel * s->channel;
}

/* `n` runs of `count` <= 16 floats, `dst_stride` and `src_stride` floats apart. */
static void copy_lanes(float *dst, int64_t dst_stride, const float *src, int64_t src_stride, int64_t n, int64_t count) {
#define LANES(c)                                                                                           \
  case c:                                                                                                  \
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_stride, src + i * src_stride, c * sizeof(float)); \
    break;
  switch (count) {
    /* clang-format off */
    LANES(1) LANES(2) LANES(3) LANES(4) LANES(5) LANES(6) LANES(7) LANES(8)
    LANES(9) LANES(10) LANES(11) LANES(12) LANES(13) LANES(14) LANES(15) LANES(16)
    default:
      break;
    /* clang-format on */
  }
#undef LANES
}

/* Rows that follow one another are one row. */
static void join_rows(const ert_strides *s, int64_t *rows, int64_t *columns) {
  if (s->row != *columns * s->column) return;
  *columns *= *rows;
  *rows = 1;
}

void ert_gather_channels(const float *x, const ert_strides *s, int64_t first, int64_t count, int64_t rows,
                         int64_t columns, ert_blocks to) {
  join_rows(s, &rows, &columns);
  for (int64_t done = 0, run; done < count; done += run) {
    run = run_length(s, first, done, count);
    const float *src = x + channel_at(s, first + done);
    float *dst = to.data + done / 16 * to.pitch + done % 16;
    for (int64_t r = 0; r < rows; r++, src += s->row, dst += columns * to.lanes)
      if (!s->blocked)
        ert_transpose(dst, to.lanes, src, s->channel, columns, run, sizeof(float));
      else if (run == 16)
        memcpy(dst, src, (size_t)columns * 16 * sizeof(float));
      else
        copy_lanes(dst, to.lanes, src, 16, columns, run);
  }
}

void ert_scatter_channels(ert_blocks from, float *y, const ert_strides *s, int64_t first, int64_t count, int64_t rows,
                          int64_t columns) {
  join_rows(s, &rows, &columns);
  for (int64_t done = 0, run; done < count; done += run) {
    run = run_length(s, first, done, count);
    const float *src = from.data + done / 16 * from.pitch + done % 16;
    float *dst = y + channel_at(s, first + done);
    for (int64_t r = 0; r < rows; r++, src += columns * 16, dst += s->row)
      if (!s->blocked)
        ert_transpose(dst, s->channel, src, 16, run, columns, sizeof(float));
      else
        copy_lanes(dst, 16, src, 16, columns, run);
  }
}
