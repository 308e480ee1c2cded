/* Patches of an image as a matrix. */
#include "kernels/im2col.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/tensor.h"
#include "kernels/transpose.h"

/* One row of the matrix: what one tap of one channel sees at all positions. */
static float *one_tap(const ert_conv_geometry *g, const float *x, const ert_strides *s, const int64_t tap[3],
                      float *to) {
  for (int64_t d = 0; d < g->out[0]; d++)
    for (int64_t h = 0; h < g->out[1]; h++)
      for (int64_t w = 0; w < g->out[2]; w++) {
        const int64_t id = d * g->stride[0] - g->pad[0] + tap[0] * g->dilation[0];
        const int64_t ih = h * g->stride[1] - g->pad[1] + tap[1] * g->dilation[1];
        const int64_t iw = w * g->stride[2] - g->pad[2] + tap[2] * g->dilation[2];
        const bool inside = id >= 0 && id < g->in[0] && ih >= 0 && ih < g->in[1] && iw >= 0 && iw < g->in[2];
        *to++ = inside ? x[id * s->plane + ih * s->row + iw] : 0.0f;
      }
  return to;
}

void ert_im2col_columns(const ert_conv_geometry *g, const float *x, const ert_strides *s, float *to) {
  int64_t tap[3];
  for (int64_t c = 0; c < g->channels; c++, x += s->channel)
    for (tap[0] = 0; tap[0] < g->kernel[0]; tap[0]++)
      for (tap[1] = 0; tap[1] < g->kernel[1]; tap[1]++)
        for (tap[2] = 0; tap[2] < g->kernel[2]; tap[2]++) to = one_tap(g, x, s, tap, to);
}

/* Extent of the padded image: what the input and the last window need. */
static int64_t padded_extent(const ert_conv_geometry *g, int d) {
  return ert_max64(g->pad[d] + g->in[d], (g->out[d] - 1) * g->stride[d] + g->reach[d] + 1);
}

bool ert_im2col_padded(const ert_conv_geometry *g, size_t *floats) {
  size_t size = (size_t)g->channels;
  for (int d = 0; d < 3; d++)
    if (!ert_multiply(size, (size_t)padded_extent(g, d), &size)) return false;
  *floats = size;
  return size <= SIZE_MAX / 16;
}

void ert_im2col_rows(const ert_conv_geometry *g, const float *x, const ert_strides *s, float *padded, float *to) {
  const int64_t channels = g->channels, height = padded_extent(g, 1), width = padded_extent(g, 2);
  memset(padded, 0, (size_t)(padded_extent(g, 0) * height * width * channels) * sizeof(float));
  for (int64_t d = 0; d < g->in[0]; d++)
    for (int64_t h = 0; h < g->in[1]; h++) {
      float *row = padded + (((d + g->pad[0]) * height + h + g->pad[1]) * width + g->pad[2]) * channels;
      const float *from = x + d * s->plane + h * s->row;
      ert_transpose(row, channels, from, s->channel, g->in[2], channels, sizeof(float));
    }
  const int64_t run = g->dilation[2] == 1 ? g->kernel[2] * channels : channels, runs = g->kernel[2] * channels / run;
  for (int64_t d = 0; d < g->out[0]; d++)
    for (int64_t h = 0; h < g->out[1]; h++)
      for (int64_t w = 0; w < g->out[2]; w++)
        for (int64_t kd = 0; kd < g->kernel[0]; kd++)
          for (int64_t kh = 0; kh < g->kernel[1]; kh++) {
            const int64_t id = d * g->stride[0] + kd * g->dilation[0], ih = h * g->stride[1] + kh * g->dilation[1];
            const float *from = padded + ((id * height + ih) * width + w * g->stride[2]) * channels;
            for (int64_t i = 0; i < runs; i++, from += g->dilation[2] * channels, to += run)
              memcpy(to, from, (size_t)run * sizeof(float));
          }
}
