/* conv_winograd: 3x3 convolution with stride 1 by Winograd's algorithm, over activations in blocks of 16 channels.
 * conv_winograd_bf16: the same with transformed inputs rounded to bf16, as transformed weights are. */
#include <inttypes.h>

#include "base/checked.h"
#include "kernels/activation.h"
#include "kernels/blocked.h"
#include "kernels/conv_geometry.h"
#include "kernels/partition.h"
#include "kernels/simd/simd.h"
#include "kernels/weights.h"
#include "kernels/winograd.h"

enum {
  BAND_BYTES = 768 * 1024, /* of transformed inputs and products: they stay in the second-level cache */
  LEAST_TILES = 56,        /* of a band, so that weights are worth being fetched, */
  LEAST_TILES_LEAN = 112,  /* or being transformed */
  UNIT = 2,                /* blocks of 16 output channels whose weights are transformed together */
  CHANNELS = 32,           /* input channels, likewise: whole chains */
  STRIP = 14,              /* tiles whose inputs are transformed before they are rounded */
};

/* Tiles are numbered along rows, then rows, then images. A task computes a band of neighbouring tiles by a run of blocks of
 * 16 output channels of one group. Tiles begin at multiples of `tile` outputs: whoever cuts outputs there gets the same bits. */
typedef struct winograd_state {
  ert_conv_geometry g;
  const ert_simd *simd;
  ert_finish finish;
  ert_strides x, y, residual;
  ert_weight_strides w; /* its groups are the taps */
  int64_t bias_group;
  int64_t tile, taps;        /* m, and (m + 2)^2 */
  bool lean;                 /* weights are those of a convolution, and transformed here */
  bool rounded;              /* transformed inputs to bf16 */
  size_t element;            /* bytes of a transformed input */
  ert_weights weights;       /* as they are stored; float32 unless lean or rounded */
  int64_t high, wide, tiles; /* tiles of an image, and all */
  int64_t blocks, in_blocks; /* of 16 output and input channels of a group */
  int64_t bands, runs;       /* tasks of a group */
  int64_t chunk, chunks; /* input channels whose transformed inputs lie together; how many times so many there are */
  int64_t most, x_tap;   /* tiles of the largest band; a chunk of its inputs for one of the taps */
  ert_span spans[];      /* of a tile's rounded inputs: its blocks of 16 channels */
} winograd_state;

static edgert_status prove(const ert_prepare *p, winograd_state *s) {
  ERT_TRY(ert_expect_operands(p, 2, 4, 1, 1));
  const ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *w = step->in[1], *y = step->out[0];
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  static const int64_t kernel[2] = {3, 3};
  ert_conv_geometry *g = &s->g;
  if (x->rank != 4) return ert_reject(p, "rank of the input", "4", "%d", x->rank);
  ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_BLOCK16));
  ERT_TRY(ert_expect_layout(p, y, ERT_LAYOUT_BLOCK16));
  ERT_TRY(ert_conv_geometry_read(p, x, y, kernel, false, g));
  for (int d = 1; d < 3; d++)
    if (g->stride[d] != 1 || g->dilation[d] != 1)
      return ert_reject(p, "strides and dilations", "1", "%" PRId64 " and %" PRId64, g->stride[d], g->dilation[d]);
  if (g->channels < 1) return ert_reject(p, "input channels", "at least 1", "%" PRId64, g->channels);
  ERT_TRY(ert_int(p, "tile", 2, 6, &s->tile));
  if (s->tile % 2) return ert_reject(p, "tile", "2, 4 or 6", "%" PRId64, s->tile);
  if (g->groups > 1 && (g->channels % 16 || g->filters % 16))
    return ert_reject(p, "channels and filters of a group", "multiples of 16", "%" PRId64 " and %" PRId64, g->channels,
                      g->filters);
  s->taps = (s->tile + 2) * (s->tile + 2);
  s->lean = w->rank == 5 && !s->rounded;
  s->blocks = ert_ceil_divide(g->filters, 16);
  s->in_blocks = ert_ceil_divide(g->channels, 16);
  s->chunk = s->lean ? CHANNELS : s->in_blocks * 16;
  s->chunks = ert_ceil_divide(s->in_blocks * 16, s->chunk);
  const int64_t weights[3] = {s->taps, g->groups * g->filters, g->channels};
  const int64_t plain[5] = {g->groups, g->filters, g->channels, 3, 3};
  const int64_t filters[2] = {g->groups, g->filters};
  ERT_TRY(ert_expect_weights(p, w));
  ERT_TRY(s->lean ? ert_expect_shape(p, w, 5, plain) : ert_expect_shape(p, w, 3, weights));
  if (!s->lean) ERT_TRY(ert_expect_dtype(p, w, s->rounded ? EDGERT_BF16 : EDGERT_F32));
  s->weights = ert_weights_of(w);
  if (bias) {
    ERT_TRY(ert_expect_dtype(p, bias, EDGERT_F32));
    ERT_TRY(ert_expect_layout(p, bias, ERT_LAYOUT_BLOCK16));
    ERT_TRY(ert_expect_shape(p, bias, 2, filters));
  }
  return residual ? ert_expect_same_type(p, y, residual) : EDGERT_OK;
}

/* Floats that taps are apart, an odd number of cache lines: of transformed weights in scratch, of inputs that are rounded. */
enum { WEIGHTS_TAP = UNIT * CHANNELS * 16 + 16, STRIP_TAP = STRIP * 16 + 16 };

/* Bytes of the transformed inputs and the products of a band of `tiles` tiles, and of what else a tap has in scratch; false if
 * they overflow. */
static bool band_bytes(const winograd_state *s, int64_t tiles, size_t *bytes) {
  const size_t chunks = (size_t)s->chunks, blocks = s->lean ? UNIT : (size_t)s->blocks, line = 16 * sizeof(float);
  const size_t own = s->lean ? WEIGHTS_TAP : s->rounded ? STRIP_TAP : 0;
  return ert_multiply(chunks * (size_t)s->chunk * s->element + blocks * line, (size_t)tiles, bytes) &&
         ert_add(*bytes, (chunks + 1) * line + own * sizeof(float), bytes) &&
         ert_multiply(*bytes, (size_t)s->taps, bytes) && *bytes <= SIZE_MAX / 16;
}

/* Bands that stay in the cache, unless that makes them small; more of them, or runs of channels, until all workers have as
 * much to do. */
static bool cut(winograd_state *s, uint32_t workers, size_t *bytes) {
  const ert_conv_geometry *g = &s->g;
  size_t one;
  if (!band_bytes(s, 1, &one)) return false;
  const int64_t fitting = (int64_t)(BAND_BYTES / one) / 14 * 14;
  s->bands = ert_ceil_divide(s->tiles, ert_max64(fitting, s->lean ? LEAST_TILES_LEAN : LEAST_TILES));
  s->runs = 1;
  const double products = (double)g->channels * 16 * (double)s->blocks * (double)s->taps * (double)s->tiles;
  const int64_t pieces = ert_pieces(g->groups * s->bands, products * (double)g->groups, workers);
  const int64_t units = ert_ceil_divide(s->blocks, 2);
  if (s->tiles / pieces >= 12 * s->bands)
    s->bands *= pieces;
  else
    s->runs = ert_min64(pieces, units);
  s->most = ert_ceil_divide(s->tiles, s->bands);
  /* An odd number of cache lines, so that taps do not displace each other. */
  s->x_tap = s->chunk * s->most + 64 / (int64_t)s->element;
  return band_bytes(s, s->most, bytes);
}

static edgert_status prepare(ert_prepare *p, bool rounded) {
  const size_t element = rounded ? p->simd->bf16_bytes : sizeof(float);
  winograd_state state = {.simd = p->simd, .rounded = rounded, .element = element}, *s;
  ert_activation activation;
  ERT_TRY(prove(p, &state));
  ERT_TRY(ert_activation_read(p, &activation));
  ert_allow_in_place(p, 3);
  const ert_tensor *bias = p->step->n_in > 2 ? p->step->in[2] : NULL;
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  const ert_conv_geometry *g = &state.g;
  state.finish = ert_finish_of(activation);
  ert_strides_of_step(p->step, 3, &state.x, &state.y, &state.residual);
  state.w = ert_weight_strides_of(p->step->in[1]);
  state.bias_group = bias ? ert_stride(bias, 0) : 0;
  state.high = ert_ceil_divide(g->out[1], state.tile);
  state.wide = ert_ceil_divide(g->out[2], state.tile);
  state.tiles = g->batch * state.high * state.wide;
  size_t bytes;
  if (!cut(&state, p->workers, &bytes))
    return ert_reject(p, "transformed inputs of a band", "fewer bytes than memory can have", "more");
  const double products = (double)g->channels * (double)g->filters * 9 * (double)(g->out[1] * g->out[2]);
  ERT_TRY(ert_conv_expect_worth(p, (int64_t)(bytes / sizeof(float)), products * (double)g->batch));
  ERT_TRY(ert_state(p, sizeof *s + (size_t)state.in_blocks * sizeof *s->spans, (void **)&s));
  *s = state;
  for (int64_t b = 0; b < s->in_blocks; b++)
    s->spans[b] = (ert_span){b * 16 * s->most, (size_t)ert_min64(16, g->channels - b * 16), 0};
  p->step->scratch_bytes = bytes;
  p->step->tasks = g->groups * s->bands * s->runs;
  return EDGERT_OK;
}

static edgert_status winograd_prepare(ert_prepare *p) { return prepare(p, false); }

static edgert_status winograd_bf16_prepare(ert_prepare *p) { return prepare(p, true); }

/* Neighbouring tiles of a band that lie in one row of an image. */
typedef struct segment {
  int64_t image, row, column; /* of tiles */
  int64_t tiles, at;          /* how many, and how many of the band come before them */
} segment;

/* The segment of the tiles [begin, end) that begins with `from`. */
static segment segment_at(const winograd_state *s, int64_t begin, int64_t from, int64_t end) {
  segment g = {.column = from % s->wide, .row = from / s->wide % s->high, .image = from / s->wide / s->high};
  g.tiles = ert_min64(s->wide - g.column, end - from);
  g.at = from - begin;
  return g;
}

static void transform_inputs(const winograd_state *s, const float *x, int64_t group, int64_t begin, int64_t end,
                             char *to, float *strip) {
  const ert_conv_geometry *g = &s->g;
  const int64_t pitch = s->rounded ? s->most : end - begin, element = (int64_t)s->element;
  for (int64_t block = 0; block < s->in_blocks; block++)
    for (int64_t from = begin; from < end;) {
      segment part = segment_at(s, begin, from, end);
      if (s->rounded) part.tiles = ert_min64(part.tiles, STRIP);
      const int64_t chunk = block * 16 / s->chunk, inside = block * 16 % s->chunk;
      char *y = to + (chunk * s->taps * s->x_tap + inside * pitch + part.at * 16) * element;
      const ert_winograd_input in = {
          .tile = (int)s->tile,
          .x = x + part.image * s->x.image + (group * s->in_blocks + block) * s->x.channel,
          .x_row = s->x.row,
          .height = g->in[1],
          .width = g->in[2],
          .row = part.row * s->tile - g->pad[1],
          .column = part.column * s->tile - g->pad[2],
          .tiles = (size_t)part.tiles,
          .y = s->rounded ? strip : (float *)(void *)y,
          .y_tap = s->rounded ? STRIP_TAP : s->x_tap,
      };
      s->simd->winograd_input(&in);
      for (int64_t t = 0; s->rounded && t < s->taps; t++)
        s->simd->round_bf16(strip + t * STRIP_TAP, y + t * s->x_tap * element, (size_t)part.tiles * 16);
      from += part.tiles;
    }
}

/* The outputs of tiles [begin, end) in `blocks` blocks from `block` on, out of their products. */
static void transform_outputs(const ert_step *step, int64_t group, int64_t block, int64_t blocks, int64_t begin,
                              int64_t end, const float *products, int64_t tap) {
  const winograd_state *s = step->state;
  const ert_tensor *bias = step->n_in > 2 ? step->in[2] : NULL, *residual = step->n_in > 3 ? step->in[3] : NULL;
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t from = begin; from < end;) {
      const segment part = segment_at(s, begin, from, end);
      const int64_t channel = group * s->blocks + block + b, row = part.row * s->tile, column = part.column * s->tile;
      ert_winograd_output out = {
          .tile = (int)s->tile,
          .x = products + (b * (end - begin) + part.at) * 16,
          .x_tap = tap,
          .bias = bias ? (const float *)bias->data + group * s->bias_group + (block + b) * 16 : NULL,
          .y = (float *)step->out[0]->data + ert_position(&s->y, part.image, 0, row, column) + channel * s->y.channel,
          .y_row = s->y.row,
          .residual_row = s->residual.row,
          .tiles = (size_t)part.tiles,
          .rows = (size_t)ert_min64(s->tile, s->g.out[1] - row),
          .columns = (size_t)ert_min64(part.tiles * s->tile, s->g.out[2] - column),
          .lo = s->finish.lo,
          .hi = s->finish.hi,
      };
      if (residual)
        out.residual = (const float *)residual->data + ert_position(&s->residual, part.image, 0, row, column) +
                       channel * s->residual.channel;
      s->simd->winograd_output(&out);
      ert_finish_stored(&s->finish, s->simd, out.y, 1, 0, out.rows, out.y_row, out.columns * 16);
      from += part.tiles;
    }
}

/* The weights of some channels for UNIT blocks of filters become those of tiles, and are multiplied, while the next ones are
 * fetched; a unit's products are complete before the next unit. */
static void multiply_lean(const ert_step *step, int64_t group, int64_t block, int64_t blocks, int64_t begin,
                          int64_t end, const float *inputs, float *weights, float *products) {
  const winograd_state *s = step->state;
  const int64_t tiles = end - begin, channels = s->g.channels, y_tap = UNIT * s->most * 16 + 16;
  const int64_t bytes = ert_weights_bytes(s->weights), w_block = s->w.block * bytes, w_channel = 9 * 16 * bytes;
  for (int64_t unit = 0; unit < blocks; unit += UNIT) {
    const int64_t count = ert_min64(UNIT, blocks - unit);
    const char *w = (const char *)step->in[1]->data + (group * s->w.group + (block + unit) * s->w.block) * bytes;
    for (int64_t c = 0; c < channels; c += CHANNELS) {
      const int64_t depth = ert_min64(CHANNELS, channels - c);
      for (int64_t b = 0; b < count; b++)
        for (int64_t part = 0; part < depth; part += 16) {
          const ert_winograd_weights of = {
              .tile = (int)s->tile,
              .w = w + b * w_block + (c + part) * w_channel,
              .weights = s->weights,
              .y = weights + (b * CHANNELS + part) * 16,
              .y_tap = WEIGHTS_TAP,
              .channels = (size_t)ert_min64(16, depth - part),
          };
          s->simd->winograd_weights(&of);
        }
      /* What comes next: the same filters' next channels, or the first ones of the next filters. */
      const bool last = c + CHANNELS >= channels;
      const char *next = last ? w + UNIT * w_block : w + (c + CHANNELS) * w_channel;
      const int64_t lines = CHANNELS * w_channel * UNIT / 64 / s->taps + 1;
      for (int64_t t = 0; t < s->taps; t++) {
        const int64_t at = t * UNIT / s->taps;
        const ert_winograd_product d = {
            .x = inputs + (c / CHANNELS * s->taps + t) * s->x_tap,
            .w = weights + t * WEIGHTS_TAP,
            .w_block = CHANNELS * 16,
            .y = products + t * y_tap,
            .tiles = (size_t)tiles,
            .blocks = (size_t)count,
            .channels = (size_t)depth,
            .add = c > 0,
            .ahead = next + at * w_block + (t - at * s->taps / UNIT) * lines * 64,
            .lines = (size_t)lines,
        };
        s->simd->winograd_multiply(&d);
      }
    }
    transform_outputs(step, group, block + unit, count, begin, end, products, y_tap);
  }
}

/* The products of some blocks, by all transformed weights of a tap after the other. */
static void multiply(const ert_step *step, int64_t group, int64_t block, int64_t blocks, int64_t begin, int64_t end,
                     const char *inputs, float *products) {
  const winograd_state *s = step->state;
  const int64_t tiles = end - begin, y_tap = blocks * tiles * 16 + 16;
  for (int64_t t = 0; t < s->taps; t++) {
    const void *x = inputs + t * s->x_tap * (int64_t)s->element;
    const int64_t at = t * s->w.group + (group * s->blocks + block) * s->w.block;
    const void *w = (const char *)step->in[1]->data + at * ert_weights_bytes(s->weights);
    float *y = products + t * y_tap;
    if (s->rounded) {
      const ert_dense d = {
          .x = x,
          .x_pixel = 16,
          .spans = s->spans,
          .n_spans = (size_t)s->in_blocks,
          .w = w,
          .w_block = s->w.block,
          .weights = s->weights,
          .y = y,
          .y_pixel = 16,
          .y_block = tiles * 16,
          .rows = 1,
          .pixels = (size_t)tiles,
          .blocks = (size_t)blocks,
          .lo = -INFINITY,
          .hi = INFINITY,
      };
      s->simd->dense_bf16(&d);
    } else {
      const ert_winograd_product d = {
          .x = x,
          .w = w,
          .w_block = s->w.block,
          .y = y,
          .tiles = (size_t)tiles,
          .blocks = (size_t)blocks,
          .channels = (size_t)s->g.channels,
      };
      s->simd->winograd_multiply(&d);
    }
  }
  transform_outputs(step, group, block, blocks, begin, end, products, y_tap);
}

static void winograd_run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no state */
  const winograd_state *s = step->state;
  char *inputs = scratch;
  float *own = (float *)(void *)(inputs + s->chunks * s->taps * s->x_tap * (int64_t)s->element);
  float *products = own + s->taps * (s->lean ? WEIGHTS_TAP : s->rounded ? STRIP_TAP : 0);
  int64_t transformed = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, band = i / s->runs % s->bands, group = i / s->runs / s->bands;
    const int64_t first = ert_cut_at(s->tiles, s->bands, band), last = ert_cut_at(s->tiles, s->bands, band + 1);
    const int64_t units = ert_ceil_divide(s->blocks, 2), block = ert_cut_at(units, s->runs, run) * 2;
    const int64_t blocks = ert_min64(ert_cut_at(units, s->runs, run + 1) * 2, s->blocks) - block;
    if (transformed != i / s->runs) transform_inputs(s, step->in[0]->data, group, first, last, inputs, own);
    transformed = i / s->runs;
    if (s->lean)
      multiply_lean(step, group, block, blocks, first, last, (const float *)(const void *)inputs, own, products);
    else
      multiply(step, group, block, blocks, first, last, inputs, products);
  }
}

extern const ert_kernel ert_kernel_conv_winograd;
const ert_kernel ert_kernel_conv_winograd = {
    .name = "conv_winograd", .prepare = winograd_prepare, .run = winograd_run, .views = true, .reduced = true};

extern const ert_kernel ert_kernel_conv_winograd_bf16;
const ert_kernel ert_kernel_conv_winograd_bf16 = {.name = "conv_winograd_bf16",
                                                  .prepare = winograd_bf16_prepare,
                                                  .run = winograd_run,
                                                  .views = true,
                                                  .reduced = true};
