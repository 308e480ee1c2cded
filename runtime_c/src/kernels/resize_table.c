/* Positions and weights of resized axes, in double precision. */
#include "kernels/resize_table.h"

#include <math.h>
#include <stddef.h>

/* A place along the output, scaled to the input: exactly, where the output is as long as the scale says. */
static double scaled(const ert_resize_axis *a, double place, bool whole) {
  return whole ? place * (double)a->in / (double)a->out : place / a->scale;
}

/* The position in the input that output i stands for. */
static double place_of(const ert_resize_rule *rule, const ert_resize_axis *a, int64_t i) {
  const double in = (double)a->in, out = (double)a->out, x = (double)i;
  double length = a->scale * in; /* the output's length before it was rounded to a whole number */
  const bool whole = fabs(length - out) <= 1e-6 * fmax(length, out);
  if (whole) length = out;
  switch (rule->coordinate) {
    case ERT_ALIGN_CORNERS:
      return length == 1 ? 0 : x * (in - 1) / (length - 1);
    case ERT_ASYMMETRIC:
      return scaled(a, x, whole);
    case ERT_TF_CROP_AND_RESIZE:
      if (length == 1) return 0.5 * (a->start + a->end) * (in - 1);
      return a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / (length - 1);
    case ERT_PYTORCH_HALF_PIXEL:
      if (length <= 1) return 0;
      break;
    case ERT_HALF_PIXEL_SYMMETRIC:
      return in / 2 * (1 - out / length) + scaled(a, x + 0.5, whole) - 0.5;
    default:
      break;
  }
  return scaled(a, x + 0.5, whole) - 0.5;
}

/* How much wider than the plain kernel an antialiasing one is, as a factor on distances: 1 or less. */
static double shrink_of(const ert_resize_rule *rule, const ert_resize_axis *a) {
  return rule->antialias ? fmin(1, a->scale) : 1;
}

static bool is_identity(const ert_resize_rule *rule, const ert_resize_axis *a) {
  if (a->in != a->out || shrink_of(rule, a) < 1) return false;
  for (int64_t i = 0; i < a->out; ++i) {
    if (place_of(rule, a, i) != (double)i) return false;
  }
  return true;
}

int64_t ert_resize_taps(const ert_resize_rule *rule, const ert_resize_axis *a) {
  if (is_identity(rule, a)) return 0;
  if (rule->mode == ERT_RESIZE_NEAREST) return 1;
  double radius = ceil((rule->mode == ERT_RESIZE_LINEAR ? 1 : 2) / shrink_of(rule, a));
  return 2 * (int64_t)fmin(radius, 1e15);
}

static double rounded(double place, int rounding) {
  switch (rounding) {
    case ERT_PREFER_FLOOR:
      return ceil(place - 0.5);
    case ERT_PREFER_CEIL:
      return floor(place + 0.5);
    case ERT_FLOOR:
      return floor(place);
    default:
      return ceil(place);
  }
}

static double kernel_at(const ert_resize_rule *rule, double distance) {
  const double d = fabs(distance), a = rule->cubic_a;
  if (rule->mode == ERT_RESIZE_LINEAR) return fmax(0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Into [0, in); NaN becomes 0. */
static int32_t clamped(double index, int64_t in) { return (int32_t)fmin(fmax(index, 0), (double)(in - 1)); }

static void fill_weights(const ert_resize_rule *rule, const ert_resize_axis *a, double place, int32_t *index,
                         float *weight) {
  const double shrink = shrink_of(rule, a), reach = (double)a->taps;
  place = fmin(fmax(place, -reach), (double)a->in + reach); /* further out, every tap is the edge all the same */
  const double first = floor(place) + 1 - (double)(a->taps / 2);
  double total = 0;
  for (int pass = 0; pass < 2; ++pass) { /* the sum of the weights, then their shares of it */
    for (int64_t t = 0; t < a->taps; ++t) {
      const double tap = first + (double)t;
      const bool inside = tap >= 0 && tap < (double)a->in;
      const double w = rule->exclude_outside && !inside ? 0 : kernel_at(rule, (place - tap) * shrink);
      if (pass == 0) {
        total += w;
      } else {
        index[t] = clamped(tap, a->in);
        weight[t] = (float)(total == 0 ? 0 : w / total);
      }
    }
  }
}

void ert_resize_fill(const ert_resize_rule *rule, const ert_resize_axis *a) {
  for (int64_t i = 0; i < a->out; ++i) {
    const double place = place_of(rule, a, i);
    if (a->outside) a->outside[i] = !(place >= 0 && place <= (double)(a->in - 1));
    if (a->weight)
      fill_weights(rule, a, place, a->index + i * a->taps, a->weight + i * a->taps);
    else
      a->index[i] = clamped(rounded(place, rule->rounding), a->in);
  }
}
