/* How an unrolled convolution is cut into strips of output rows, and where in the inputs of a strip each tap is. */
#include "kernels/unrolled_geometry.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/partition.h"
#include "kernels/unrolled_stream.h"

enum {
  MOST_GROUPS = 1 << 20, /* that matter here: no product of theirs exceeds 64 bits */
  LANES = ERT_UNROLLED_LANES,
  TILE_FLOATS = 128 * 1024, /* the inputs of a tile stay in the second-level cache */
  LEAST_VECTORS = 16,       /* of a strip: worth making instructions for */
  SETS = 8,                 /* channels so many lines apart share few sets of the cache, */
  PAGE = 64,                /* and these a single one */
  FEW_LINES = 4,            /* of a channel; if they are more, and a multiple of it, channels share few sets likewise */
  MANY_FILTERS = 96,        /* that inputs are packed for, */
  MANY_GROUPS = 16,         /* or so many groups if vectors begin with lines of the cache */
  MANY_CHANNELS = 64,       /* of a tile: that many pages at once cost time */
  KEPT_ROOM = 100 * 1000,   /* bytes of a set's instructions: in the second-level cache, so that few sets read x; */
  PACKED_ROOM = 34 * 1000,  /* in the first-level one if inputs are packed anyhow, which costs less to read again */
  ROWED_TILE = 16,          /* channels */
  ROWED_VALUES = 4,         /* of an input in a group */
  LEAST_SET = 4,            /* groups that it pays to keep inputs for, */
  KEPT_SETS = 2,            /* sets whose first groups are made to keep them anyhow, */
  KEPT_VECTORS = 9,         /* and vectors for each further one, if packing would leave room for sets, too */
  VALUE_BYTES = 8,          /* of the instruction of a value, and of a load */
  LOAD_BYTES = 10,
};

/* Whether output `at` of dimension d has an input for tap k. */
static bool inside(const ert_conv_geometry *g, int d, int64_t at, int64_t k) {
  const int64_t i = at * g->stride[d] + k * g->dilation[d] - g->pad[d];
  return i >= 0 && i < g->in[d];
}

int64_t ert_unrolled_vectors(const ert_unrolled_geometry *s, int64_t rows) {
  if (s->joined) return ert_ceil_divide((rows - 1) * s->pitch + s->g.out[2], LANES);
  return rows * ert_ceil_divide(s->g.out[2], LANES);
}

/* Strips as high as a tile's inputs have room for, and every worker wants. */
static void cut(ert_unrolled_geometry *s, int64_t workers) {
  const ert_conv_geometry *g = &s->g;
  int64_t phase;
  const int64_t first = ert_tap_at(g, 1, 0, &phase), reach = ert_tap_at(g, 1, g->kernel[1] - 1, &phase) - first;
  const int64_t planes = ert_max64(ert_unrolled_planes(s), 1), least = LEAST_VECTORS * LANES;
  const int64_t room = TILE_FLOATS / planes / s->tile / s->pitch; /* rows; products might exceed 64 bits */
  s->rows = g->out[1];
  if (!s->in_place) s->rows = ert_clamp64(room - reach, least / s->pitch + 1, s->rows);
  if (g->batch * g->groups * g->out[0] < workers && g->out[1] * s->pitch >= workers * least)
    s->rows = ert_min64(s->rows, ert_ceil_divide(g->out[1], workers));
  s->strips = ert_ceil_divide(g->out[1], s->rows);
  s->rows = ert_ceil_divide(g->out[1], s->strips);
  s->first = first;
  s->height = s->rows + reach;
  s->line = s->rowed ? s->tile * s->pitch : s->pitch;
  s->plane = ert_ceil_divide(s->height * s->line, LANES) * LANES;
  s->apart = LANES;
  if (s->packed) {
    s->channel = LANES;
    s->apart = s->tile * LANES + LANES;
    return;
  }
  if (s->rowed) {
    s->channel = s->pitch;
    return;
  }
  s->channel = ert_unrolled_planes(s) * s->plane;
  if (s->channel > FEW_LINES * LANES && s->channel % (FEW_LINES * LANES) == 0) s->channel += LANES;
}

/* Groups of filters of a tile, and bytes of the instructions that each has on average. */
static int64_t groups_of_tile(const ert_prepare *p, const ert_unrolled_geometry *s, int64_t *bytes) {
  const ert_tensor *values = p->step->in[ERT_UNROLLED_VALUES], *table = p->step->in[ERT_UNROLLED_GROUPS];
  const int64_t groups = ert_clamp64(table->rank == 3 ? table->shape[1] : 1, 1, MOST_GROUPS);
  const int64_t each = ert_min64(values->elements / s->tiles / groups, INT32_MAX);
  *bytes = each * VALUE_BYTES + s->tile * LOAD_BYTES;
  return groups / s->g.groups;
}

/* Whether it pays that the first group of each set keeps inputs for the others: if they have room together, and sets are few
 * for the vectors that all of them go through. */
static bool keeping_worth(const ert_unrolled_geometry *s, int64_t groups, int64_t bytes) {
  const int64_t further = groups * bytes / KEPT_ROOM - KEPT_SETS + 1;
  return s->g.filters > ERT_UNROLLED_FILTERS && bytes <= KEPT_ROOM / LEAST_SET &&
         (bytes > PACKED_ROOM / 2 || further * KEPT_VECTORS * LANES <= ert_volume(s->g.out));
}

/* Whether it pays to have rows of whole vectors, which waste lanes, but begin with lines of the cache, in few pages: if values
 * are so few that loads are what takes time. */
static bool rows_worth(const ert_prepare *p, const ert_unrolled_geometry *s) {
  const ert_conv_geometry *g = &s->g;
  const double places = (double)(s->taps * g->channels) * (double)(g->filters * g->groups);
  const double values = (double)p->step->in[ERT_UNROLLED_VALUES]->elements;
  const bool few = values * (double)ERT_UNROLLED_FILTERS <= places * (double)ROWED_VALUES;
  const int64_t pitch = ert_ceil_divide(s->pitch, LANES) * LANES;
  return few && s->tile >= ROWED_TILE && pitch <= TILE_FLOATS / s->tile && 8 * g->out[2] >= 7 * pitch;
}

/* How inputs are read: where they are, if x has rows as the outputs have and channels are spread over the sets of the
 * first-level cache. Those of one tap are kept by sets of groups, if vectors begin with lines of the cache; or packed, unless
 * filters are few, or vectors begin with such lines and either are all that channels have, or groups are few, or no group's
 * instructions have room. */
static void choose(const ert_prepare *p, const ert_tensor *x, const ert_strides *strides, ert_unrolled_geometry *s) {
  const ert_conv_geometry *g = &s->g;
  const bool agree = g->stride[1] == 1 && g->stride[2] == 1 && (g->in[1] == 1 || strides->row == s->pitch);
  const bool spread = strides->channel % (SETS * LANES) != 0, page = strides->channel % (PAGE * LANES) == 0;
  const bool aligned = strides->channel % LANES == 0 && (uintptr_t)x->data % 64 == 0;
  const bool single = s->taps == 1 && s->tile >= MANY_CHANNELS && g->pad[0] == 0 && g->pad[1] == 0 && g->pad[2] == 0;
  const bool few = g->filters < MANY_FILTERS, line = aligned && strides->channel == LANES;
  int64_t bytes;
  const int64_t groups = groups_of_tile(p, s, &bytes);
  const bool many = groups >= MANY_GROUPS, near = aligned && (!single || line || !many || bytes > PACKED_ROOM);
  s->kept = single && agree && aligned && !line && !(page && many) && s->tile <= ERT_UNROLLED_KEPT &&
            keeping_worth(s, groups, bytes);
  s->in_place = s->kept || (agree && spread && (s->taps > 1 || few || near));
  s->packed = single && !s->in_place;
  s->rowed = !s->in_place && s->taps > 1 && rows_worth(p, s);
  s->room = s->kept ? KEPT_ROOM : s->packed || s->rowed || (single && line) ? PACKED_ROOM : 0;
}

edgert_status ert_unrolled_geometry_read(const ert_prepare *p, const ert_strides *x, bool joined,
                                         ert_unrolled_geometry *out) {
  const ert_tensor *input = p->step->in[0], *y = p->step->out[0];
  const int64_t *kernel;
  ERT_TRY(ert_ints(p, "kernel", input->rank - 2u, 1, ERT_UNROLLED_TAPS, &kernel));
  ERT_TRY(ert_conv_geometry_read(p, input, y, kernel, false, &out->g));
  const ert_conv_geometry *g = &out->g;
  ERT_TRY(ert_int(p, "channels", 1, INT32_MAX, &out->tile));
  out->taps = ert_volume(g->kernel);
  if (out->taps > ERT_UNROLLED_TAPS) return ert_reject(p, "taps", "at most 4096", "%" PRId64, out->taps);
  out->tiles = ert_max64(ert_ceil_divide(g->channels, out->tile), 1);
  out->tile = ert_clamp64(g->channels, 1, out->tile);
  if (y->elements == 0) return EDGERT_OK;
  out->phases[0] = g->kernel[0];
  for (int d = 1; d < 3; d++) out->phases[d] = ert_tap_phases(g, d);
  out->pitch = ert_max64(g->out[2], ert_ceil_divide(g->in[2], g->stride[2]));
  out->joined = joined;
  choose(p, input, x, out);
  if (out->rowed) out->joined = false;
  if (out->rowed || (out->packed && !joined)) out->pitch = ert_ceil_divide(out->pitch, LANES) * LANES;
  cut(out, p->workers);
  return EDGERT_OK;
}

size_t ert_unrolled_list_runs(const ert_unrolled_geometry *s, const ert_strides *x, int64_t depth, int64_t row,
                              ert_sparse_run *runs) {
  const ert_conv_geometry *g = &s->g;
  const int64_t planes = ert_unrolled_planes(s), step = g->stride[2];
  size_t n = 0;
  for (int64_t plane = 0; plane < planes; plane++) {
    int64_t right, down;
    (void)ert_tap_at(g, 2, plane % s->phases[2], &right);
    (void)ert_tap_at(g, 1, plane / s->phases[2] % s->phases[1], &down);
    const int64_t z = plane / s->phases[2] / s->phases[1];
    const int64_t d = depth * g->stride[0] + z * g->dilation[0] - g->pad[0];
    for (int64_t i = 0; i < s->height; i++) {
      const int64_t r = (row + s->first + i) * g->stride[1] + down;
      const bool there = d >= 0 && d < g->in[0] && r >= 0 && r < g->in[1] && right < g->in[2];
      const int64_t count = there ? ert_ceil_divide(g->in[2] - right, step) : 0;
      const ptrdiff_t from = there ? ert_position(x, 0, d, r, right) : 0;
      if (i > 0 && !s->rowed && runs[n - 1].after == 0 &&
          from == runs[n - 1].from + (ptrdiff_t)runs[n - 1].count * step)
        runs[n - 1].count += (size_t)count; /* a row behind the one before, in both places */
      else
        runs[n++] = (ert_sparse_run){.from = from, .count = (size_t)count};
      runs[n - 1].after = (size_t)(s->pitch - count);
    }
    if (!s->rowed) runs[n - 1].after += (size_t)(s->plane - s->height * s->pitch);
  }
  if (n > 0 && !s->packed && !s->rowed) runs[n - 1].after += (size_t)(s->channel - planes * s->plane);
  return n;
}

bool ert_unrolled_list_offsets(const ert_unrolled_geometry *s, const ert_strides *x, int32_t *offsets) {
  const ert_conv_geometry *g = &s->g;
  const int64_t most = INT32_MAX / 4, channel = ert_unrolled_channel(s, x);
  for (int64_t z = 0; z < g->kernel[0]; z++)
    for (int64_t k = 0; k < g->kernel[1]; k++)
      for (int64_t j = 0; j < g->kernel[2]; j++) {
        int64_t phase;
        const int64_t row = ert_tap_at(g, 1, k, &phase), column = ert_tap_at(g, 2, j, &phase);
        int64_t at = column + row * s->line;
        if (s->in_place)
          at += (z * g->dilation[0] - g->pad[0]) * x->plane;
        else
          at +=
              ((z * s->phases[1] + k % s->phases[1]) * s->phases[2] + j % s->phases[2]) * s->plane - s->first * s->line;
        if (at < -most || s->tile * channel + at > most) return false;
        *offsets++ = (int32_t)(at * 4);
      }
  return true;
}

void ert_unrolled_list_columns(const ert_unrolled_geometry *s, uint16_t *columns) {
  const int64_t width = s->g.out[2], kernel = s->g.kernel[2];
  for (int64_t j = 0; j <= kernel; j++) {
    unsigned lanes = 0; /* of the vector that ends with the column */
    for (int64_t begin = 1 - LANES, column = 0; begin < s->pitch;
         begin++, column = column + 1 < s->pitch ? column + 1 : 0) {
      const bool has = j == kernel ? column < width : inside(&s->g, 2, column, j);
      lanes = lanes >> 1 | (unsigned)has << (LANES - 1);
      if (begin >= 0) columns[begin * (kernel + 1) + j] = (uint16_t)lanes;
    }
  }
}

/* The lanes, of those of a vector that begins at a position of a depth, whose rows have inputs for a tap. */
static uint16_t rows_inside(const ert_unrolled_geometry *s, int64_t row, int64_t column, int64_t k) {
  const int64_t last = row + (column + LANES - 1) / s->pitch;
  if (inside(&s->g, 1, row, k) && inside(&s->g, 1, last, k)) return UINT16_MAX;
  uint16_t lanes = 0;
  for (int64_t lane = 0; lane < LANES; lane++)
    if (inside(&s->g, 1, row + (column + lane) / s->pitch, k)) lanes |= (uint16_t)(1u << lane);
  return lanes;
}

/* The masks of a vector. */
static void list_masks(const ert_unrolled_geometry *s, const uint16_t *columns, int64_t depth, int64_t row,
                       int64_t column, uint16_t valid, uint16_t *masks) {
  const ert_conv_geometry *g = &s->g;
  columns += column * (g->kernel[2] + 1);
  for (int64_t z = 0; z < g->kernel[0]; z++)
    for (int64_t k = 0; k < g->kernel[1]; k++) {
      const uint16_t lanes = inside(g, 0, depth, z) ? rows_inside(s, row, column, k) & valid : 0;
      for (int64_t j = 0; j < g->kernel[2]; j++) *masks++ = columns[j] & lanes;
    }
}

/* Whether all taps have inputs in a depth of outputs, and in rows [row, last]. */
static bool whole(const ert_unrolled_geometry *s, int64_t depth, int64_t row, int64_t last) {
  const ert_conv_geometry *g = &s->g;
  return inside(g, 0, depth, 0) && inside(g, 0, depth, g->kernel[0] - 1) && inside(g, 1, row, 0) &&
         inside(g, 1, last, g->kernel[1] - 1);
}

size_t ert_unrolled_list_vectors(const ert_unrolled_geometry *s, const ert_strides *y, const ert_strides *residual,
                                 const uint16_t *columns, int64_t depth, int64_t row, ert_unrolled_vector *vectors,
                                 uint16_t *masks) {
  const int64_t width = s->g.out[2], rows = ert_min64(s->rows, s->g.out[1] - row);
  const int64_t line = s->joined ? (rows - 1) * s->pitch + width : width;
  /* After so many vectors and rows they begin at the same columns again. */
  const int64_t rows_on = s->joined ? LANES / ert_common_divisor(s->pitch, LANES) : 1;
  const size_t vectors_on = (size_t)(s->joined ? rows_on * s->pitch / LANES : ert_ceil_divide(width, LANES));
  size_t n = 0;
  for (int64_t begin = 0; begin < (s->joined ? 1 : rows); begin++)
    for (int64_t at = 0; at < line; at += LANES, n++, masks += s->taps) {
      const int64_t down = begin + at / s->pitch, right = at % s->pitch;
      ert_unrolled_vector *v = vectors + n;
      v->valid = columns[right * (s->g.kernel[2] + 1) + s->g.kernel[2]];
      if (line - at < LANES) v->valid &= (uint16_t)((1u << (line - at)) - 1);
      v->stored = s->pitch > width && s->joined ? (uint16_t)((1u << __builtin_popcount(v->valid)) - 1) : v->valid;
      v->x = s->packed ? (down * s->pitch + right) / LANES * s->apart : down * s->line + right;
      const int64_t after = right < width ? right : width; /* where outputs follow those before */
      v->y = down * y->row + after;
      v->residual = down * residual->row + after;
      const int64_t first = row + down, last = first + (right + LANES - 1) / s->pitch;
      if (n >= vectors_on && v[-(ptrdiff_t)vectors_on].valid == v->valid && whole(s, depth, first - rows_on, last))
        memcpy(masks, masks - (ptrdiff_t)vectors_on * s->taps, (size_t)s->taps * sizeof *masks);
      else
        list_masks(s, columns, depth, first, right, v->valid, masks);
    }
  return n;
}
