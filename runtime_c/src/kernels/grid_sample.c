/* grid_sample: an image sampled at given positions between its pixels, in two or three dimensions. */
#include <math.h>

#include "kernels/tensor.h"

enum { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC };
enum { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION };
enum { MAX_DIMENSIONS = 3, MAX_TAPS = 4, MAX_CORNERS = 64 };

typedef struct grid_state {
  int mode, padding, dimensions;
  bool align_corners;
  int64_t extents[MAX_DIMENSIONS];
  int64_t channels, pixels, positions, units; /* pixels of a channel; positions of an image; positions in all */
} grid_state;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  static const char *const modes[] = {"linear", "nearest", "cubic", NULL};
  static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
  const ert_tensor *x = p->step->in[0], *grid = p->step->in[1], *y = p->step->out[0];
  grid_state s = {0};
  int64_t align_corners;
  ERT_TRY(ert_choice(p, "mode", modes, &s.mode));
  ERT_TRY(ert_choice(p, "padding", paddings, &s.padding));
  ERT_TRY(ert_int_or(p, "align_corners", 0, 1, 0, &align_corners));
  s.align_corners = align_corners;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, grid, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  if (x->rank != 4 && x->rank != 5) return ert_reject(p, "rank of the input", "4 or 5", "%d", x->rank);
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  s.dimensions = x->rank - 2;
  int64_t shape[ERT_MAX_RANK] = {x->shape[0]};
  for (int i = 0; i < s.dimensions; ++i) shape[1 + i] = y->shape[2 + i], s.extents[i] = x->shape[2 + i];
  shape[x->rank - 1] = s.dimensions;
  ERT_TRY(ert_expect_shape(p, grid, x->rank, shape));
  if (y->shape[0] != x->shape[0] || y->shape[1] != x->shape[1])
    return ert_reject(p, "images and channels of the output", "those of the input", "others");
  if (y->elements == 0) return EDGERT_OK;
  if (x->elements == 0) return ert_reject(p, "input", "pixels", "none");
  s.channels = x->shape[1];
  s.pixels = ert_extent(x, 2, x->rank);
  s.positions = ert_extent(y, 2, y->rank);
  s.units = s.positions * x->shape[0];
  void *memory;
  ERT_TRY(ert_state(p, sizeof s, &memory));
  *(grid_state *)memory = s;
  p->step->tasks = ert_cut(s.units, (s.channels + 8) * 8, p->workers);
  return EDGERT_OK;
}

/* Folded into [low, high] by mirrors at both ends. */
static float reflect(float place, float low, float high) {
  const float length = high - low;
  if (!(length > 0)) return low;
  float folded = fmodf(place - low, 2 * length);
  if (folded < 0) folded += 2 * length;
  return low + fminf(folded, 2 * length - folded);
}

static float cubic_weight(float distance) {
  const float d = fabsf(distance), a = -0.75F;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* The pixels along one dimension that make a sample at grid value g, with their weights; returns their number. */
static int find_taps(const grid_state *s, float g, int64_t extent, int64_t *pixel, float *weight) {
  const float n = (float)extent, low = s->align_corners ? 0 : -0.5F, high = s->align_corners ? n - 1 : n - 0.5F;
  float place = s->align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  if (s->mode == MODE_NEAREST) place = rintf(place);
  if (place < low || place > high) {
    if (s->padding == PADDING_BORDER) place = fminf(fmaxf(place, 0), n - 1);
    if (s->padding == PADDING_REFLECTION) place = reflect(place, low, high);
  }
  place = fminf(fmaxf(place, -4), n + 4); /* no pixel is within reach of a place further out */
  const float base = floorf(place);
  const int first = s->mode == MODE_CUBIC ? -1 : 0, taps = s->mode == MODE_CUBIC ? 4 : s->mode == MODE_LINEAR ? 2 : 1;
  for (int t = 0; t < taps; ++t) {
    float at = base + (float)(first + t), distance = place - at;
    weight[t] = s->mode == MODE_CUBIC ? cubic_weight(distance) : s->mode == MODE_LINEAR ? 1 - fabsf(distance) : 1;
    if (s->padding == PADDING_ZEROS && !(at >= 0 && at < n)) weight[t] = 0;
    if (s->padding == PADDING_REFLECTION && (at < low || at > high)) at = truncf(reflect(at, low, high));
    pixel[t] = ert_clamp64((int64_t)at, 0, extent - 1);
  }
  return taps;
}

/* Offsets and weights of all corners around one position; returns their number. */
static int find_corners(const grid_state *s, const float *grid, int64_t *offset, float *weight) {
  int corners = 1;
  offset[0] = 0;
  weight[0] = 1;
  for (int d = 0; d < s->dimensions; ++d) { /* the grid has the last dimension first */
    int64_t pixel[MAX_TAPS];
    float share[MAX_TAPS];
    const int taps = find_taps(s, grid[s->dimensions - 1 - d], s->extents[d], pixel, share);
    for (int c = corners - 1; c >= 0; --c) { /* each corner becomes `taps` ones, from the last on: in place */
      const int64_t at = offset[c] * s->extents[d];
      const float w = weight[c];
      for (int t = taps - 1; t >= 0; --t) {
        offset[c * taps + t] = at + pixel[t];
        weight[c * taps + t] = w * share[t];
      }
    }
    corners *= taps;
  }
  return corners;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  (void)scratch;
  const grid_state *s = step->state;
  if (step->tasks == 0) return;
  const float *grid = step->in[1]->data;
  const int64_t stop = ert_cut_at(s->units, step->tasks, end);
  int64_t offset[MAX_CORNERS];
  float weight[MAX_CORNERS];
  for (int64_t unit = ert_cut_at(s->units, step->tasks, begin); unit < stop; ++unit) {
    const int64_t image = unit / s->positions, position = unit % s->positions;
    const int corners = find_corners(s, grid + unit * s->dimensions, offset, weight);
    const float *x = (const float *)step->in[0]->data + image * s->channels * s->pixels;
    float *y = (float *)step->out[0]->data + image * s->channels * s->positions + position;
    for (int64_t c = 0; c < s->channels; ++c, x += s->pixels, y += s->positions) {
      float sum = 0;
      for (int k = 0; k < corners; ++k) sum += x[offset[k]] * weight[k];
      *y = sum;
    }
  }
}

const ert_kernel ert_kernel_grid_sample = {.name = "grid_sample", .prepare = prepare, .run = run};
