/* The geometry of a convolution, proven from a step's operands and attributes. */
#include "kernels/conv_geometry.h"

#include <inttypes.h>

#include "kernels/partition.h"

/* Attributes up to here, so that sums and products with extents of real tensors stay within 64 bits. */
static const int64_t most = INT32_MAX;

/* Proves one output extent. For a transposed convolution `in` is y's extent and `out` is x's, up to `slack` unused positions. */
static edgert_status prove_extent(const ert_prepare *p, const ert_conv_geometry *g, int d, int64_t pad_end,
                                  int64_t slack, bool transposed) {
  if (g->in[d] > most || g->out[d] > most || g->kernel[d] > most)
    return ert_reject(p, "spatial extent", "less than 2^31", "%" PRId64, g->in[d]);
  const int64_t room = g->in[d] + g->pad[d] + pad_end - g->reach[d] - 1;
  if (g->kernel[d] < 1) return ert_reject(p, "kernel extent", "at least 1", "%" PRId64, g->kernel[d]);
  if (transposed) {
    if (room - slack != (g->out[d] - 1) * g->stride[d])
      return ert_reject(p, "extent of the output", "the one of the input, strides, pads and kernel", "%" PRId64,
                        g->in[d]);
    return EDGERT_OK;
  }
  if (room < 0) return ert_reject(p, "padded input extent", "at least the kernel's", "%" PRId64, g->in[d]);
  if (g->out[d] != room / g->stride[d] + 1)
    return ert_reject(p, "output extent", "the one of the input, strides, pads and kernel", "%" PRId64, g->out[d]);
  return EDGERT_OK;
}

edgert_status ert_conv_expect_worth(const ert_prepare *p, int64_t floats, double products) {
  const double always = 1 << 16, worth = always + 4 * (double)p->step->in[0]->elements + 64 * products;
  if ((double)floats <= worth) return EDGERT_OK;
  return ert_reject(p, "strides, pads and dilations", "ones in proportion to the input",
                    "%" PRId64 " numbers to gather", floats);
}

edgert_status ert_conv_geometry_read(const ert_prepare *p, const ert_tensor *x, const ert_tensor *y,
                                     const int64_t *kernel, bool transposed, ert_conv_geometry *out) {
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  return ert_conv_geometry_of(p, x, y, kernel, transposed, out);
}

edgert_status ert_conv_geometry_of(const ert_prepare *p, const ert_tensor *x, const ert_tensor *y,
                                   const int64_t *kernel, bool transposed, ert_conv_geometry *out) {
  if (x->rank < 3 || x->rank > 5) return ert_reject(p, "rank of the input", "3 to 5", "%d", x->rank);
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  const uint32_t n = x->rank - 2u;
  const int64_t *strides, *pads, *dilations, *slack = NULL;
  ERT_TRY(ert_ints(p, "strides", n, 1, most, &strides));
  ERT_TRY(ert_ints(p, "pads", 2 * n, 0, most, &pads));
  ERT_TRY(ert_ints(p, "dilations", n, 1, most, &dilations));
  if (transposed) ERT_TRY(ert_ints(p, "output_padding", n, 0, most, &slack));
  ert_conv_geometry g = {.batch = x->shape[0],
                         .in = {1, 1, 1},
                         .out = {1, 1, 1},
                         .kernel = {1, 1, 1},
                         .stride = {1, 1, 1},
                         .dilation = {1, 1, 1}};
  ERT_TRY(ert_int_or(p, "group", 1, most, 1, &g.groups));
  if (y->shape[0] != g.batch) return ert_reject(p, "batch of the output", "that of the input", "%" PRId64, y->shape[0]);
  if (x->shape[1] % g.groups != 0 || y->shape[1] % g.groups != 0)
    return ert_reject(p, "group", "a divisor of the input and output channels", "%" PRId64, g.groups);
  g.channels = x->shape[1] / g.groups;
  g.filters = y->shape[1] / g.groups;
  for (uint32_t i = 0; i < n; i++) {
    const int d = (int)(i + 3 - n);
    g.in[d] = transposed ? y->shape[2 + i] : x->shape[2 + i];
    g.out[d] = transposed ? x->shape[2 + i] : y->shape[2 + i];
    g.kernel[d] = kernel[i];
    g.stride[d] = strides[i];
    g.pad[d] = pads[i];
    g.dilation[d] = dilations[i];
    if (g.kernel[d] > most) return ert_reject(p, "kernel extent", "less than 2^31", "%" PRId64, g.kernel[d]);
    g.reach[d] = g.kernel[d] > 0 ? (g.kernel[d] - 1) * g.dilation[d] : 0;
    ERT_TRY(prove_extent(p, &g, d, pads[n + i], slack ? slack[i] : 0, transposed));
  }
  *out = g;
  return EDGERT_OK;
}

/* The outputs from `begin` on that see the same taps. */
static ert_conv_part part_at(const ert_conv_geometry *g, int d, int64_t begin) {
  ert_conv_part part = {.begin = begin, .end = begin + 1};
  const int64_t at = begin * g->stride[d] - g->pad[d], inside = g->in[d] - 1 - g->reach[d] + g->pad[d];
  ert_taps_inside(at, g->dilation[d], g->kernel[d], g->in[d], &part.first, &part.last);
  if (part.last - part.first == g->kernel[d] && inside >= 0) /* so do all up to the last one whose taps end inside */
    part.end = ert_clamp64(inside / g->stride[d] + 1, begin + 1, g->out[d]);
  return part;
}

int ert_conv_cut(const ert_conv_geometry *g, int d, int64_t least, ert_conv_part parts[ERT_CONV_PARTS]) {
  if (g->kernel[d] > ERT_CONV_PARTS / 2) least = ert_max64(least, ert_ceil_divide(g->out[d], ERT_CONV_PARTS));
  int n = 0;
  for (int64_t at = 0; at < g->out[d]; at = parts[n - 1].end) {
    const ert_conv_part next = part_at(g, d, at);
    ert_conv_part *last = n > 0 ? &parts[n - 1] : NULL;
    const bool same = last && next.first == last->first && next.last == last->last;
    const bool thin = last && (last->end - last->begin < least || g->out[d] - at < least);
    if (!same && !thin) {
      parts[n++] = next;
      continue;
    }
    last->end = next.end;
    last->first = ert_min64(last->first, next.first);
    last->last = ert_max64(last->last, next.last);
  }
  return n;
}

ert_conv_band ert_conv_band_at(const ert_conv_geometry *g, int64_t blocks, int64_t bands, int64_t i) {
  const int64_t band = i % bands, rest = i / bands, row = ert_cut_at(g->out[1], bands, band);
  return (ert_conv_band){
      .image = rest / g->out[0] / blocks,
      .block = rest / g->out[0] % blocks,
      .depth = rest % g->out[0],
      .row = row,
      .rows = ert_cut_at(g->out[1], bands, band + 1) - row,
  };
}
