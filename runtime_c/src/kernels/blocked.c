/* Moving channels between activations of either layout and blocks of 16 channels in scratch. */
#include "kernels/blocked.h"

#include <string.h>

#include "kernels/tensor.h"
#include "kernels/transpose.h"

edgert_status ert_expect_activations(const ert_prepare *p, const ert_tensor *t) {
  if (t->layout == ERT_LAYOUT_PLANAR || t->layout == ERT_LAYOUT_BLOCK16) return EDGERT_OK;
  return ert_reject(p, "layout of activations", "planar or blocks of 16", "%d", t->layout);
}

/* The run of channels that starts `done` channels into the range and stays within one block on both sides. */
static int64_t run_length(const ert_image *image, int64_t first, int64_t done, int64_t count) {
  const int64_t here = ert_min64(count - done, 16 - done % 16);
  return image->blocked ? ert_min64(here, 16 - (first + done) % 16) : here;
}

static float *channel_at(const ert_image *image, int64_t channel, int64_t at) {
  return image->blocked ? image->data + (channel / 16 * image->positions + at) * 16 + channel % 16
                        : image->data + channel * image->positions + at;
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

void ert_gather_channels(const ert_image *x, int64_t first, int64_t count, int64_t at, int64_t n, ert_blocks to) {
  for (int64_t done = 0, run; done < count; done += run) {
    run = run_length(x, first, done, count);
    const float *src = channel_at(x, first + done, at);
    float *dst = to.data + done / 16 * to.pitch + done % 16;
    if (!x->blocked)
      ert_transpose(dst, to.lanes, src, x->positions, n, run, sizeof(float));
    else if (run == 16)
      memcpy(dst, src, (size_t)n * 16 * sizeof(float));
    else
      copy_lanes(dst, to.lanes, src, 16, n, run);
  }
}

void ert_scatter_channels(ert_blocks from, const ert_image *y, int64_t first, int64_t count, int64_t at, int64_t n) {
  for (int64_t done = 0, run; done < count; done += run) {
    run = run_length(y, first, done, count);
    const float *src = from.data + done / 16 * from.pitch + done % 16;
    float *dst = channel_at(y, first + done, at);
    if (!y->blocked)
      ert_transpose(dst, y->positions, src, 16, run, n, sizeof(float));
    else
      copy_lanes(dst, 16, src, 16, n, run);
  }
}
