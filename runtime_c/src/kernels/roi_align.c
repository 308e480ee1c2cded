/* roi_align: regions of an image resampled to one size, each bin the mean or the greatest of bilinear samples. */
#include <math.h>

#include "kernels/indices.h"
#include "kernels/tensor.h"

typedef struct roi_state {
  int64_t batches, channels, in_height, in_width, height, width, rois;
  int64_t ratio;            /* samples per bin and dimension, 0: one per input pixel */
  int64_t row_cap, col_cap; /* samples of one bin that can lie inside the image */
  float spatial_scale;
  bool half_pixel, mean;
} roi_state;

/* A sample along one dimension: the two pixels around it and their weights. */
typedef struct roi_tap {
  int64_t low, high;
  float low_weight, high_weight;
} roi_tap;

/* The samples of all bins along one dimension that lie inside the image. */
typedef struct roi_axis {
  roi_tap *taps;   /* [bins][cap] */
  int64_t *counts; /* [bins] */
  int64_t cap, bins;
  int64_t samples; /* of each bin, outside ones included */
} roi_axis;

enum { MAX_RATIO = 64, MAX_SAMPLES = 1 << 20 };

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 3, 3, 1, 1));
  ERT_TRY(ert_expect_planar(p));
  ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *rois = step->in[1], *batch = step->in[2], *y = step->out[0];
  static const char *const modes[] = {"avg", "max", NULL};
  roi_state s = {0};
  int mode;
  int64_t half_pixel;
  ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, rois, EDGERT_F32));
  ERT_TRY(ert_expect_dtype(p, y, EDGERT_F32));
  ERT_TRY(ert_expect_indices(p, batch));
  if (x->rank != 4) return ert_reject(p, "rank of the input", "4", "%d", x->rank);
  s.rois = rois->rank == 2 ? rois->shape[0] : 0;
  ERT_TRY(ert_expect_shape(p, rois, 2, (const int64_t[]){s.rois, 4}));
  ERT_TRY(ert_expect_shape(p, batch, 1, &s.rois));
  ERT_TRY(ert_choice(p, "mode", modes, &mode));
  ERT_TRY(ert_int(p, "height", 1, INT64_MAX, &s.height));
  ERT_TRY(ert_int(p, "width", 1, INT64_MAX, &s.width));
  ERT_TRY(ert_int(p, "sampling_ratio", 0, MAX_RATIO, &s.ratio));
  ERT_TRY(ert_int(p, "half_pixel", 0, 1, &half_pixel));
  ERT_TRY(ert_float_or(p, "spatial_scale", 1, &s.spatial_scale));
  s.batches = x->shape[0], s.channels = x->shape[1], s.in_height = x->shape[2], s.in_width = x->shape[3];
  s.half_pixel = half_pixel, s.mean = mode == 0;
  ERT_TRY(ert_expect_shape(p, y, 4, (const int64_t[]){s.rois, s.channels, s.height, s.width}));
  if (y->elements == 0) return EDGERT_OK;
  if (x->elements == 0) return ert_reject(p, "input", "pixels", "none");

  /* Without a ratio samples lie at least half a pixel apart, or there is one to a bin. */
  s.row_cap = s.ratio ? s.ratio : 2 * s.in_height + 6;
  s.col_cap = s.ratio ? s.ratio : 2 * s.in_width + 6;
  size_t rows, cols;
  if (__builtin_mul_overflow((size_t)s.height, (size_t)s.row_cap * sizeof(roi_tap) + sizeof(int64_t), &rows) ||
      __builtin_mul_overflow((size_t)s.width, (size_t)s.col_cap * sizeof(roi_tap) + sizeof(int64_t), &cols) ||
      __builtin_add_overflow(rows, cols, &step->scratch_bytes))
    return ert_reject(p, "samples", "a number that fits in memory", "more");
  void *memory;
  ERT_TRY(ert_state(p, sizeof s, &memory));
  *(roi_state *)memory = s;
  step->tasks = ert_cut(s.rois * s.channels, s.height * s.width * 16, p->workers);
  return EDGERT_OK;
}

static roi_tap make_tap(float place, int64_t extent) {
  float clipped = fminf(fmaxf(place, 0), (float)(extent - 1));
  int64_t low = ert_min64((int64_t)clipped, extent - 1);
  float share = clipped - (float)low;
  return (roi_tap){low, ert_min64(low + 1, extent - 1), 1 - share, share};
}

/* The samples of a region from `begin` to `end` pixels of the original image; extents are finite or give no samples. */
static void make_samples(const roi_state *s, float begin, float end, int64_t extent, roi_axis *axis) {
  const float offset = s->half_pixel ? 0.5F : 0;
  const float first = begin * s->spatial_scale - offset, last = end * s->spatial_scale - offset;
  const float length = s->half_pixel ? last - first : fmaxf(last - first, 1);
  const float size = length / (float)axis->bins;
  const float count = s->ratio ? (float)s->ratio : fminf(fmaxf(ceilf(size), 0), MAX_SAMPLES);
  const bool finite = isfinite(first) && isfinite(size);
  axis->samples = finite ? (int64_t)count : 0;
  for (int64_t bin = 0; bin < axis->bins; ++bin) {
    axis->counts[bin] = 0;
    if (axis->samples == 0) continue;
    /* Only samples from a little before pixel -1 to a little past the last pixel can lie inside. */
    const double pitch = (double)size / (double)count, start = (double)first + (double)bin * (double)size;
    const double a = (-1 - start) / pitch, b = ((double)extent - start) / pitch;
    const bool flat = !(fabs(pitch) > 0);
    const int64_t from = flat ? 0 : (int64_t)fmin(fmax(fmin(a, b) - 2, 0), (double)count);
    const int64_t to = flat ? axis->samples : (int64_t)fmin(fmax(fmax(a, b) + 2, 0), (double)count);
    for (int64_t i = from; i < to && axis->counts[bin] < axis->cap; ++i) {
      const float place = first + (float)bin * size + ((float)i + 0.5F) * size / count;
      if (place >= -1 && place <= (float)extent)
        axis->taps[bin * axis->cap + axis->counts[bin]++] = make_tap(place, extent);
    }
  }
}

/* The weighted pixels around the sample of rows v and columns h. */
static inline void corners_of(const roi_state *s, const float *x, const roi_tap *v, const roi_tap *h, float corner[4]) {
  const float *low = x + v->low * s->in_width, *high = x + v->high * s->in_width;
  corner[0] = v->low_weight * h->low_weight * low[h->low];
  corner[1] = v->low_weight * h->high_weight * low[h->high];
  corner[2] = v->high_weight * h->low_weight * high[h->low];
  corner[3] = v->high_weight * h->high_weight * high[h->high];
}

static float bin_mean(const roi_state *s, const float *x, const roi_axis *rows, const roi_axis *cols, int64_t row,
                      int64_t col) {
  const roi_tap *v = &rows->taps[row * rows->cap], *h = &cols->taps[col * cols->cap];
  float sum = 0, corner[4];
  for (int64_t i = 0; i < rows->counts[row]; ++i) {
    for (int64_t j = 0; j < cols->counts[col]; ++j) {
      corners_of(s, x, &v[i], &h[j], corner);
      sum += corner[0] + corner[1] + corner[2] + corner[3];
    }
  }
  const int64_t samples = rows->samples * cols->samples;
  return samples ? sum / (float)samples : 0;
}

static float bin_max(const roi_state *s, const float *x, const roi_axis *rows, const roi_axis *cols, int64_t row,
                     int64_t col) {
  const roi_tap *v = &rows->taps[row * rows->cap], *h = &cols->taps[col * cols->cap];
  const int64_t inside = rows->counts[row] * cols->counts[col], samples = rows->samples * cols->samples;
  if (samples == 0) return 0;
  float greatest = inside < samples ? 0 : -INFINITY, corner[4]; /* a sample outside is 0 */
  for (int64_t i = 0; i < rows->counts[row]; ++i) {
    for (int64_t j = 0; j < cols->counts[col]; ++j) {
      corners_of(s, x, &v[i], &h[j], corner);
      for (int k = 0; k < 4; ++k) greatest = corner[k] > greatest ? corner[k] : greatest;
    }
  }
  return greatest;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const roi_state *s = step->state;
  if (step->tasks == 0) return;
  roi_axis rows = {.taps = scratch, .cap = s->row_cap, .bins = s->height};
  roi_axis cols = {.taps = rows.taps + s->height * s->row_cap, .cap = s->col_cap, .bins = s->width};
  rows.counts = (int64_t *)(void *)(cols.taps + s->width * s->col_cap);
  cols.counts = rows.counts + s->height;
  const int64_t units = s->rois * s->channels, stop = ert_cut_at(units, step->tasks, end);
  float *y = step->out[0]->data;
  int64_t sampled = -1;
  for (int64_t unit = ert_cut_at(units, step->tasks, begin); unit < stop; ++unit) {
    const int64_t roi = unit / s->channels, channel = unit % s->channels;
    const float *box = (const float *)step->in[1]->data + 4 * roi;
    if (roi != sampled) {
      make_samples(s, box[1], box[3], s->in_height, &rows);
      make_samples(s, box[0], box[2], s->in_width, &cols);
      sampled = roi;
    }
    const int64_t image = ert_clamp64(ert_index_at(step->in[2], roi), 0, s->batches - 1);
    const float *x = (const float *)step->in[0]->data + (image * s->channels + channel) * s->in_height * s->in_width;
    for (int64_t row = 0; row < s->height; ++row) {
      for (int64_t col = 0; col < s->width; ++col)
        y[(unit * s->height + row) * s->width + col] = (s->mean ? bin_mean : bin_max)(s, x, &rows, &cols, row, col);
    }
  }
}

const ert_kernel ert_kernel_roi_align = {.name = "roi_align", .prepare = prepare, .run = run};
