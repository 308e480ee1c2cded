/* conv_unrolled_quantized: convolution of bytes with weights most of which are zero, the others becoming instructions: one
 * for the weights of a filter at a tap in four neighbouring input channels, if any of them is not zero. */
#include <string.h>

#include "base/checked.h"
#include "kernels/partition.h"
#include "kernels/quantized.h"
#include "kernels/unrolled_stream.h"

enum {
  SCALE = ERT_UNROLLED_BIAS + 1, /* operands as of conv_unrolled, but for these */
  RESIDUAL,
  OPERANDS,
  LANES = ERT_UNROLLED_LANES,
  BLOCK = 16, /* filters of a group, and channels that lie side by side */
  CHUNK = 8,  /* vectors whose sums wait to become bytes, at most, */
  LEAST_CHUNK = 2,
  WAITING = 24,             /* and of all groups of a set so many that the first-level cache has them */
  FARTHEST = 1 << 18,       /* rows, columns and channels of which products fit 64 bits */
  STRIP_BYTES = 512 * 1024, /* the inputs of a strip stay in the second-level cache */
  LEAST_VECTORS = 16,       /* of a strip: worth making instructions for */
  ROOM = 34 * 1000,         /* bytes of the instructions of a set: the first-level cache has them, but for a few */
};

/* The inputs of a strip lie in scratch as quads of channels, padding included: a quad of all positions is one row, and a tap is
 * one distance. Rows of inputs are as long as those of outputs with what taps reach beyond; where strides are more than one, those
 * of each phase are a plane of their own. So sixteen neighbouring positions are a vector wherever they begin, and those behind a
 * row's end are left out in the end. Of a single tap, the quads of a vector lie behind one another. */
typedef struct unrolled_quantized_state {
  ert_conv_geometry g; /* over quads */
  const ert_simd *simd;
  const ert_i8 *loops;
  ert_i8_finish finish;
  ert_strides x, y, residual;
  ert_unrolled_stream stream;
  uint8_t pad;
  bool in_place;                /* x has the positions of a strip one after the other, */
  bool joined;                  /* and so do y and the residual */
  int64_t taps, blocks;         /* blocks of input channels */
  int64_t phases[3], first[3];  /* first: where the first tap reads, in positions of its phase */
  int64_t rows, strips, runs;   /* of a strip; of a depth; of groups of filters */
  int64_t pitch, height, plane; /* positions of a row, rows of a plane, positions of one */
  int64_t channel, apart;       /* quads from one of a position to the next; from vector to vector */
  size_t pixels_at, quads_at, sums_at, masks_at, set_at; /* in scratch, bytes */
  int32_t offsets[];                                     /* bytes, of each tap */
} unrolled_quantized_state;

/* How many positions further on than the first tap the last one reads. */
static int64_t reach_of(const ert_conv_geometry *g, int d) {
  int64_t phase;
  const int64_t first = ert_tap_at(g, d, 0, &phase);
  return ert_tap_at(g, d, g->kernel[d] - 1, &phase) - first;
}

static bool is_packed(const unrolled_quantized_state *s) { return s->taps == 1; }

static int64_t planes_of(const unrolled_quantized_state *s) { return s->phases[0] * s->phases[1] * s->phases[2]; }

static int64_t positions_of(const unrolled_quantized_state *s, int64_t rows) {
  return (rows - 1) * s->pitch + s->g.out[2];
}

/* Strips as high as a strip's inputs have room for, and every worker wants. */
static void cut(unrolled_quantized_state *s, int64_t workers) {
  const ert_conv_geometry *g = &s->g;
  const int64_t reach = reach_of(g, 1), least = LEAST_VECTORS * LANES;
  const int64_t row = planes_of(s) * s->blocks * BLOCK * s->pitch; /* bytes */
  s->rows = ert_clamp64(STRIP_BYTES / row - reach, least / s->pitch + 1, g->out[1]);
  if (g->batch * g->out[0] < workers && g->out[1] * s->pitch >= workers * least)
    s->rows = ert_min64(s->rows, ert_ceil_divide(g->out[1], workers));
  s->strips = ert_ceil_divide(g->out[1], s->rows);
  s->rows = ert_ceil_divide(g->out[1], s->strips);
  s->height = s->rows + reach;
  s->plane = s->height * s->pitch;
  if (is_packed(s)) {
    s->channel = LANES;
    s->apart = s->blocks * 4 * LANES + LANES;
    return;
  }
  s->channel = ert_ceil_divide(planes_of(s) * s->plane, LANES) * LANES + LANES;
  s->apart = LANES;
}

/* Scratch: the pixels of a block of channels, quads, sums, masks, and the groups of a set. */
static bool lay_out(unrolled_quantized_state *s, int64_t *copied, size_t *bytes) {
  const int64_t positions = planes_of(s) * s->plane, vectors = ert_ceil_divide(positions, LANES);
  size_t quads;
  *bytes = 0;
  if (!ert_multiply((size_t)(is_packed(s) ? vectors * s->apart : s->channel),
                    (size_t)(is_packed(s) ? 1 : s->blocks * 4), &quads) ||
      quads > INT32_MAX / 8)
    return false;
  *copied = (int64_t)quads;
  return ert_reserve(bytes, s->in_place ? 0 : (size_t)positions, BLOCK, &s->pixels_at) &&
         ert_reserve(bytes, quads + 2 * LANES, sizeof(int32_t), &s->quads_at) &&
         ert_reserve(bytes, (LEAST_CHUNK * ERT_UNROLLED_SET + 1) * BLOCK * LANES, sizeof(int32_t), &s->sums_at) &&
         ert_reserve(bytes, CHUNK * (size_t)s->taps, sizeof(uint16_t), &s->masks_at) &&
         ert_reserve(bytes, ERT_UNROLLED_SET, sizeof(ert_unrolled), &s->set_at);
}

/* Bytes from the first position of a strip to what each tap reads for it. */
static void list_offsets(unrolled_quantized_state *s) {
  const ert_conv_geometry *g = &s->g;
  for (int64_t tap = 0; tap < s->taps; tap++) {
    const int64_t k[3] = {tap / (g->kernel[2] * g->kernel[1]), tap / g->kernel[2] % g->kernel[1], tap % g->kernel[2]};
    int64_t phase;
    const int64_t plane = (k[0] * s->phases[1] + k[1] % s->phases[1]) * s->phases[2] + k[2] % s->phases[2];
    const int64_t row = ert_tap_at(g, 1, k[1], &phase) - s->first[1],
                  column = ert_tap_at(g, 2, k[2], &phase) - s->first[2];
    s->offsets[tap] = (int32_t)((plane * s->plane + row * s->pitch + column) * 4);
  }
}

/* Proves types, layouts and attributes, and reads the geometry over quads. */
static edgert_status prove(const ert_prepare *p, ert_unrolled_geometry *of, ert_i8_finish *finish) {
  ERT_TRY(ert_quantized_geometry(p, true, ERT_UNROLLED_TAPS, &of->g));
  if (of->g.groups != 1) return ert_reject(p, "group", "1", "%lld", (long long)of->g.groups);
  of->taps = ert_volume(of->g.kernel);
  if (of->taps > ERT_UNROLLED_TAPS) return ert_reject(p, "taps", "at most 4096", "%lld", (long long)of->taps);
  of->g.channels = ert_ceil_divide(of->g.channels, 4);
  of->tile = of->g.channels, of->tiles = 1;
  if (p->step->out[0]->elements > 0 &&
      (reach_of(&of->g, 1) > FARTHEST || of->g.out[2] + reach_of(&of->g, 2) > FARTHEST || of->g.channels > FARTHEST))
    return ert_reject(p, "rows, channels, and what taps reach", "at most 2^18", "more");
  return ert_quantized_expect(p, ERT_UNROLLED_BIAS, 2, (const int64_t[]){1, of->g.filters}, finish);
}

static edgert_status expect_blocks(const ert_prepare *p, const unrolled_quantized_state *s) {
  for (int64_t i = 0; i < s->stream.each; i++) {
    const int64_t wanted = ert_min64(s->g.filters - i * BLOCK, BLOCK);
    const int32_t filters = ert_unrolled_group_at(&s->stream, 0, i).filters;
    if (filters != wanted) return ert_reject(p, "filters of a group", "16, or what is left", "%d", filters);
  }
  return EDGERT_OK;
}

static edgert_status prepare(ert_prepare *p) {
  ert_unrolled_geometry of = {0};
  ert_i8_finish finish;
  int64_t pad, copied;
  ERT_TRY(ert_expect_operands(p, OPERANDS - 1, OPERANDS, 1, 1));
  ERT_TRY(prove(p, &of, &finish));
  ERT_TRY(ert_int(p, "x_zero", 0, UINT8_MAX, &pad));
  ert_allow_in_place(p, RESIDUAL);
  unrolled_quantized_state *s;
  ERT_TRY(ert_state(p, sizeof *s + (size_t)of.taps * sizeof *s->offsets, (void **)&s));
  ERT_TRY(ert_unrolled_stream_read(p, &of, EDGERT_I32, &s->stream));
  const ert_tensor *y = p->step->out[0];
  if (y->elements == 0) return EDGERT_OK;
  s->g = of.g;
  ERT_TRY(expect_blocks(p, s));
  const ert_conv_geometry *g = &s->g;
  ert_strides_of_step(p->step, RESIDUAL, &s->x, &s->y, &s->residual);
  s->simd = p->simd;
  s->loops = ert_i8_of(p->simd);
  s->finish = finish;
  s->pad = (uint8_t)pad;
  s->taps = of.taps;
  s->blocks = ert_max64(ert_ceil_divide(g->channels, 4), 1);
  int64_t phase;
  s->phases[0] = g->kernel[0];
  for (int d = 1; d < 3; d++) s->first[d] = ert_tap_at(g, d, 0, &phase), s->phases[d] = ert_tap_phases(g, d);
  s->pitch = g->out[2] + reach_of(g, 2);
  s->in_place = is_packed(s) && ert_positions_joined(&s->x, g->in) && g->in[1] == g->out[1] && g->in[2] == g->out[2] &&
                g->pad[0] == 0 && g->pad[1] == 0 && g->pad[2] == 0;
  s->joined =
      s->pitch == g->out[2] && ert_positions_joined(&s->y, g->out) && ert_positions_joined(&s->residual, g->out);
  cut(s, p->workers);
  if (!lay_out(s, &copied, &p->step->scratch_bytes))
    return ert_reject(p, "inputs of one strip", "less than 1 GiB", "more");
  ERT_TRY(ert_conv_expect_worth(p, copied, (double)ert_volume(g->out) * (double)g->filters));
  list_offsets(s);
  const int64_t strips = g->batch * g->out[0] * s->strips;
  const double products = (double)p->step->in[ERT_UNROLLED_VALUES]->elements * (double)ert_volume(g->out);
  s->runs = ert_min64(ert_pieces(strips, products * (double)g->batch, p->workers), s->stream.each);
  p->step->tasks = strips * s->runs;
  if (!s->loops->unrolls || !s->simd->unrolled_bytes) return EDGERT_OK;
  const size_t one =
      s->simd->unrolled_bytes((size_t)s->taps, (size_t)s->stream.n_batches, (size_t)s->stream.n_values, 0);
  p->step->code_bytes = ERT_UNROLLED_FRAME + (one > ROOM ? one : ROOM);
  return EDGERT_OK;
}

static edgert_status prove_stream(const ert_prepare *p) {
  const unrolled_quantized_state *s = p->step->state;
  if (p->step->out[0]->elements == 0) return EDGERT_OK;
  const ert_unrolled_geometry of = {.g = s->g, .taps = s->taps, .tile = s->g.channels, .tiles = 1};
  return ert_unrolled_stream_prove(p, &of, &s->stream);
}

/* A strip of the outputs of an image. */
typedef struct unrolled_quantized_task {
  int64_t image, depth, row, rows;
} unrolled_quantized_task;

/* A row of a plane: `pitch` pixels of a block, those that are none being zero points. */
static void gather_row(const unrolled_quantized_state *s, const uint8_t *from, int64_t right, bool there, uint8_t *to) {
  const int64_t step = s->g.stride[2], begin = s->first[2] * step + right; /* of the first pixel */
  const int64_t left = there ? ert_clamp64(begin < 0 ? ert_ceil_divide(-begin, step) : 0, 0, s->pitch) : s->pitch;
  const int64_t end = ert_clamp64(ert_ceil_divide(s->g.in[2] - begin, step), left, s->pitch);
  memset(to, s->pad, (size_t)left * BLOCK);
  from += (begin + left * step) * BLOCK;
  if (step == 1)
    memcpy(to + left * BLOCK, from, (size_t)(end - left) * BLOCK);
  else
    for (int64_t c = left; c < end; c++, from += step * BLOCK) memcpy(to + c * BLOCK, from, BLOCK);
  memset(to + end * BLOCK, s->pad, (size_t)(s->pitch - end) * BLOCK);
}

/* The pixels of a block of channels for all planes of a strip; `x` is the block's first of the image. */
static void gather(const unrolled_quantized_state *s, const unrolled_quantized_task *t, const uint8_t *x, uint8_t *to) {
  const ert_conv_geometry *g = &s->g;
  for (int64_t plane = 0; plane < planes_of(s); plane++) {
    int64_t right, down;
    (void)ert_tap_at(g, 2, plane % s->phases[2], &right);
    (void)ert_tap_at(g, 1, plane / s->phases[2] % s->phases[1], &down);
    const int64_t z = plane / s->phases[2] / s->phases[1];
    const int64_t depth = t->depth * g->stride[0] + z * g->dilation[0] - g->pad[0];
    for (int64_t i = 0; i < s->height; i++, to += s->pitch * BLOCK) {
      const int64_t row = (t->row + s->first[1] + i) * g->stride[1] + down;
      const bool there = depth >= 0 && depth < g->in[0] && row >= 0 && row < g->in[1];
      gather_row(s, there ? x + ert_position(&s->x, 0, depth, row, 0) : x, right, there, to);
    }
  }
}

static void copy_inputs(const unrolled_quantized_state *s, const unrolled_quantized_task *t, const uint8_t *x,
                        uint8_t *scratch) {
  int32_t *quads = (int32_t *)(void *)(scratch + s->quads_at);
  uint8_t *pixels = scratch + s->pixels_at;
  const int64_t positions = s->in_place ? positions_of(s, t->rows) : planes_of(s) * s->plane;
  for (int64_t b = 0; b < s->blocks; b++, x += s->x.channel, quads += 4 * s->channel) {
    if (!s->in_place) gather(s, t, x, pixels);
    const uint8_t *from = s->in_place ? x + ert_position(&s->x, 0, t->depth * s->g.stride[0], t->row, 0) : pixels;
    s->loops->split(from, (size_t)positions, quads, s->channel, s->apart);
  }
}

/* What instructions compute, where there are none. */
static void walk(const ert_unrolled *u) {
  for (size_t v = 0; v < u->n_vectors; v++) {
    uint32_t *sums = (uint32_t *)(void *)(u->sums + v * u->n_filters * LANES);
    memset(sums, 0, u->n_filters * LANES * sizeof *sums);
    const uint32_t *batch = u->batches;
    const uint8_t *owner = u->owners;
    const int8_t *value = (const int8_t *)(const void *)u->values;
    for (size_t tap = 0; tap < u->taps; tap++) {
      const uint8_t *from = (const uint8_t *)(const void *)(u->x + u->vectors[v].x) + u->offsets[tap];
      for (const uint32_t *last = batch + u->tap_batches[tap]; batch < last; batch++) {
        const uint8_t *inputs[4];
        for (int k = 0; k < 4; k++) inputs[k] = from += (ptrdiff_t)(*batch >> 8 * k & ERT_UNROLLED_FAR) * u->channel;
        for (uint32_t n = ert_unrolled_values(*batch); n > 0; n--, owner++, value += 4) {
          uint32_t *sum = sums + (*owner & ERT_UNROLLED_OWNER) * LANES;
          const uint8_t *own = inputs[*owner >> 5 & 3];
          for (int lane = 0; lane < LANES; lane++, own += 4)
            sum[lane] += (uint32_t)(own[0] * value[0] + own[1] * value[1] + own[2] * value[2] + own[3] * value[3]);
        }
      }
    }
  }
}

/* Sixteen pixels of a block, in a row of scratch, to or from where they lie: those that are outputs of the strip. */
static void move_pixels(const unrolled_quantized_state *s, const unrolled_quantized_task *t, const ert_strides *strides,
                        uint8_t *place, int64_t at, uint8_t *row, bool store) {
  const int64_t end = ert_min64(at + LANES, positions_of(s, t->rows));
  for (int64_t n; at < end; at += n, row += n * BLOCK) {
    const int64_t column = s->joined ? 0 : at % s->pitch;
    n = s->joined ? end - at : ert_min64(end - at, s->pitch - column);
    const int64_t valid = s->joined ? n : ert_min64(n, s->g.out[2] - column);
    if (valid <= 0) continue;
    uint8_t *own = place + (s->joined ? at * BLOCK : at / s->pitch * strides->row + column * BLOCK);
    memcpy(store ? own : row, store ? row : own, (size_t)valid * BLOCK);
  }
}

/* A group's sums of a chunk of vectors, those from position `at` on, to bytes. */
static void finish_chunk(const unrolled_quantized_state *s, const ert_step *step, const unrolled_quantized_task *t,
                         int64_t block, int64_t at, const ert_unrolled *u) {
  const ert_tensor *residual = step->n_in > RESIDUAL ? step->in[RESIDUAL] : NULL;
  const int32_t *bias = (const int32_t *)step->in[ERT_UNROLLED_BIAS]->data + block * BLOCK;
  const float *scale = (const float *)step->in[SCALE]->data + block * BLOCK;
  uint8_t *y = step->out[0]->data, *other = residual ? residual->data : NULL;
  y += ert_position(&s->y, t->image, t->depth, t->row, 0) + block * s->y.channel;
  if (other) other += ert_position(&s->residual, t->image, t->depth, t->row, 0) + block * s->residual.channel;
  for (size_t v = 0; v < u->n_vectors; v++, at += LANES) {
    uint8_t row[LANES * BLOCK], added[LANES * BLOCK];
    const int32_t *sums = (const int32_t *)(const void *)(u->sums + v * u->n_filters * LANES);
    if (other) move_pixels(s, t, &s->residual, other, at, added, false);
    const bool whole = s->joined && at + LANES <= positions_of(s, t->rows);
    s->loops->finish_planes(&s->finish, sums, bias, scale, other ? added : NULL, whole ? y + at * BLOCK : row);
    if (!whole) move_pixels(s, t, &s->y, y, at, row, true);
  }
}

/* Groups of a set, from number `first` on, with their instructions if there is memory for some. Returns how many there are. */
static int64_t make_set(const unrolled_quantized_state *s, const ert_step *step, const ert_unrolled *all, int64_t first,
                        int64_t end, ert_unrolled *set) {
  uint8_t *body = all->body;
  size_t bytes = 0;
  int64_t n = 0;
  for (; n < ERT_UNROLLED_SET && first + n < end; n++) {
    const ert_unrolled_group group = ert_unrolled_group_at(&s->stream, 0, first + n);
    ert_unrolled *u = set + n;
    *u = *all;
    u->n_filters = (size_t)group.filters;
    u->tap_batches = group.tap_batches;
    u->batches = s->stream.batches + group.batch;
    u->owners = s->stream.owners + group.value;
    u->values = (const float *)step->in[ERT_UNROLLED_VALUES]->data + group.value;
    u->n_values = (size_t)group.n_values;
    u->body = body;
    if (!body) continue;
    size_t batches = 0;
    for (int64_t tap = 0; tap < s->taps; tap++) batches += (size_t)group.tap_batches[tap];
    bytes += s->simd->unrolled_bytes((size_t)s->taps, batches, u->n_values, 0);
    if (n > 0 && bytes > ROOM) break;
    body = s->simd->unrolled_group(u);
  }
  return n;
}

static void run_strip(const unrolled_quantized_state *s, const ert_step *step, const unrolled_quantized_task *t,
                      int64_t first, int64_t end, uint8_t *scratch) {
  uint16_t *masks = (uint16_t *)(void *)(scratch + s->masks_at);
  ert_unrolled *set = (ert_unrolled *)(void *)(scratch + s->set_at);
  ert_unrolled_vector vectors[CHUNK] = {0};
  memset(masks, 0xff, CHUNK * (size_t)s->taps * sizeof *masks);
  ert_unrolled all = {
      .x = (const float *)(const void *)(scratch + s->quads_at),
      .offsets = s->offsets,
      .channel = (int32_t)(s->channel * 4),
      .channels = (size_t)s->g.channels,
      .taps = (size_t)s->taps,
      .vectors = vectors,
      .masks = masks,
      .first = true,
      .bytes = true,
      .sums = (float *)(void *)(scratch + s->sums_at),
      .code = step->executable ? scratch + step->code : NULL,
      .executable = step->executable,
  };
  if (all.code) all.body = s->simd->unrolled_frame(&all);
  const int64_t count = ert_ceil_divide(positions_of(s, t->rows), LANES);
  for (int64_t n; first < end; first += n) {
    n = make_set(s, step, &all, first, end, set);
    const int64_t most = ert_clamp64(WAITING / n, LEAST_CHUNK, CHUNK);
    for (int64_t i = 0; i < n; i++) set[i].sums = all.sums + i * most * BLOCK * LANES;
    for (int64_t v = 0, chunk; v < count; v += chunk) {
      chunk = ert_min64(count - v, most);
      for (int64_t i = 0; i < chunk; i++) vectors[i].x = (v + i) * s->apart;
      for (int64_t i = 0; i < n; i++) set[i].n_vectors = (size_t)chunk;
      if (all.code) s->simd->unrolled(set, (size_t)n);
      for (int64_t i = 0; i < n; i++) {
        if (!all.code) walk(set + i);
        finish_chunk(s, step, t, first + i, v * LANES, set + i);
      }
    }
  }
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin == end) return; /* an empty output has no geometry */
  const unrolled_quantized_state *s = step->state;
  const ert_conv_geometry *g = &s->g;
  int64_t copied = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i % s->runs, all = i / s->runs, strip = all % s->strips;
    unrolled_quantized_task t = {.depth = all / s->strips % g->out[0], .row = strip * s->rows};
    t.image = all / s->strips / g->out[0];
    t.rows = ert_min64(s->rows, g->out[1] - t.row);
    if (copied != all)
      copy_inputs(s, &t, (const uint8_t *)step->in[ERT_UNROLLED_X]->data + t.image * s->x.image, scratch);
    copied = all;
    run_strip(s, step, &t, s->stream.each * run / s->runs, s->stream.each * (run + 1) / s->runs, scratch);
  }
}

extern const ert_kernel ert_kernel_conv_unrolled_quantized;
const ert_kernel ert_kernel_conv_unrolled_quantized = {
    .name = "conv_unrolled_quantized",
    .prepare = prepare,
    .prove = prove_stream,
    .run = run,
    .views = true,
    .generates = true,
};
