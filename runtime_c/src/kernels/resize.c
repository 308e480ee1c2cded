/* resize: nearest (any type), linear and cubic (float32) resampling along any axes; planar, or blocks of 16 channels. */
#include <math.h>
#include <string.h>

#include "kernels/resample.h"
#include "kernels/tensor.h"

static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
static const char *const coordinates[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    NULL};
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};

typedef struct resize_state {
  ert_resample plan;
  bool nearest;
} resize_state;

static edgert_status read_rule(const ert_prepare *p, ert_resize_rule *rule) {
  int64_t exclude_outside, antialias;
  float cubic_a;
  ERT_TRY(ert_choice(p, "mode", modes, &rule->mode));
  ERT_TRY(ert_choice(p, "coordinate", coordinates, &rule->coordinate));
  ERT_TRY(ert_choice(p, "nearest", roundings, &rule->rounding));
  ERT_TRY(ert_int_or(p, "exclude_outside", 0, 1, 0, &exclude_outside));
  ERT_TRY(ert_int_or(p, "antialias", 0, 1, 0, &antialias));
  ERT_TRY(ert_float_or(p, "cubic_a", -0.75F, &cubic_a));
  rule->exclude_outside = exclude_outside;
  rule->antialias = antialias;
  rule->cubic_a = (double)cubic_a;
  return EDGERT_OK;
}

/* A scale was a ratio of sizes if it is one rounded to float32: then the exact ratio, so that ties fall where they should. */
static double exact_scale(const ert_tensor *x, const ert_tensor *y, float scale) {
  for (int i = 0; i < x->rank; ++i) {
    double ratio = (double)y->shape[i] / (double)x->shape[i];
    if ((float)ratio == scale) return ratio;
  }
  return (double)scale;
}

/* Every axis with its taps; bytes of its tables are added to *bytes. */
static edgert_status plan_axes(const ert_prepare *p, const ert_resize_rule *rule, ert_resample *plan, size_t *bytes) {
  const ert_tensor *x = p->step->in[0], *y = p->step->out[0];
  const float *scales, *roi = NULL;
  const bool crop = rule->coordinate == ERT_TF_CROP_AND_RESIZE;
  ERT_TRY(ert_floats(p, "scales", x->rank, &scales));
  if (crop) ERT_TRY(ert_floats(p, "roi", 2u * x->rank, &roi));
  for (int i = 0; i < x->rank; ++i) {
    ert_resize_axis *a = &plan->axes[i];
    if (!(scales[i] > 0 && scales[i] < INFINITY))
      return ert_reject(p, "scales", "numbers above 0", "%g", (double)scales[i]);
    if (x->shape[i] > INT32_MAX)
      return ert_reject(p, "size of a dimension", "at most 2147483647", "%lld", (long long)x->shape[i]);
    *a = (ert_resize_axis){.in = x->shape[i], .out = y->shape[i], .scale = exact_scale(x, y, scales[i])};
    if (crop) a->start = (double)roi[i], a->end = (double)roi[i + x->rank];
    a->taps = ert_resize_taps(rule, a);
    /* A kernel as wide as the scale says covers each input a few times. */
    int64_t entries, most = 64 * (a->in + ert_min64(a->out, INT64_MAX / 128)) + 1024;
    if (__builtin_mul_overflow(a->taps, a->out, &entries) || entries > most)
      return ert_reject(p, "scales", "the ratio of the sizes", "%g", (double)scales[i]);
    *bytes += (size_t)entries * (sizeof(int32_t) + sizeof(float)) + (size_t)a->out + sizeof(int32_t);
  }
  return EDGERT_OK;
}

/* Gives every axis that needs one its tables, cut from `memory`, and fills them. */
static void fill_axes(const ert_resize_rule *rule, ert_resample *plan, int rank, char *memory) {
  for (int i = 0; i < rank; ++i) {
    ert_resize_axis *a = &plan->axes[i];
    size_t entries = (size_t)(a->taps * a->out);
    if (!entries) continue;
    a->index = (int32_t *)(void *)memory;
    memory += entries * sizeof *a->index;
    if (rule->mode != ERT_RESIZE_NEAREST) {
      a->weight = (float *)(void *)memory;
      memory += entries * sizeof *a->weight;
    }
    if (rule->coordinate == ERT_TF_CROP_AND_RESIZE) {
      a->outside = (uint8_t *)memory;
      memory += ((size_t)a->out + sizeof(int32_t) - 1) / sizeof(int32_t) * sizeof(int32_t);
    }
    ert_resize_fill(rule, a);
  }
}

/* The axes as they are stored: of blocks of 16 channels the lanes are one more. */
static int store_axes(ert_resample *plan, const ert_tensor *x, const ert_tensor *y) {
  const ert_stored from = ert_stored_of(x), to = ert_stored_of(y);
  for (int i = 0; i < from.rank; ++i) {
    plan->axes[i].in = from.shape[i];
    plan->axes[i].out = to.shape[i];
    plan->from[i] = from.stride[i];
    plan->to[i] = to.stride[i];
  }
  int rank = from.rank;
  if (rank == 0) {
    plan->axes[0] = (ert_resize_axis){.in = 1, .out = 1};
    plan->from[0] = plan->to[0] = 1;
    rank = 1;
  }
  return rank;
}

/* Makes the last axis that is resized the last, and contiguous ones behind it `inner`. */
static void shape_plan(ert_resample *plan, int rank) {
  plan->inner = 1;
  for (; rank > 1 && plan->axes[rank - 1].taps == 0; --rank) {
    const int64_t size = plan->axes[rank - 1].in;
    if (size > 1 && (plan->from[rank - 1] != plan->inner || plan->to[rank - 1] != plan->inner)) break;
    plan->inner *= size;
  }
  int row = rank - 1;
  while (row > 0 && plan->axes[row].taps == 0) --row;
  if (plan->axes[row].taps == 0) row = rank - 1;
  const ert_resize_axis axis = plan->axes[row];
  const int64_t from = plan->from[row], to = plan->to[row];
  for (int i = row; i < rank - 1; ++i) {
    plan->axes[i] = plan->axes[i + 1];
    plan->from[i] = plan->from[i + 1];
    plan->to[i] = plan->to[i + 1];
  }
  plan->axes[rank - 1] = axis;
  plan->from[rank - 1] = from;
  plan->to[rank - 1] = to;
  plan->rank = rank;
  plan->rows = (ert_walk){.operands = 1, .elements = 1};
  for (int i = 0; i < rank - 1; ++i) {
    ert_walk_push(&plan->rows, plan->axes[i].out, &plan->to[i]);
    plan->rows.elements *= plan->axes[i].out;
  }
  if (rank == 1) ert_walk_push(&plan->rows, 1, &plan->to[0]);
}

/* Whether a nearest axis repeats every input twice. */
static bool is_doubling(const ert_resize_axis *a) {
  if (a->taps != 1 || a->outside) return false;
  for (int64_t i = 0; i < a->out; ++i) {
    if (a->index[i] != i / 2) return false;
  }
  return true;
}

static uint64_t filler_bits(uint8_t dtype, float value) {
  uint64_t bits = 0;
  if (dtype == EDGERT_F32) {
    memcpy(&bits, &value, sizeof value);
  } else if (dtype == EDGERT_BOOL) {
    bits = value != 0;
  } else if (value == value) {
    bits = (uint64_t)(int64_t)fmin(fmax((double)value, -0x1p62), 0x1p62);
  }
  return bits;
}

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 1, 1, 1, 1));
  ert_step *step = p->step;
  const ert_tensor *x = step->in[0], *y = step->out[0];
  const bool block16 = x->layout == ERT_LAYOUT_BLOCK16;
  if (!block16) ERT_TRY(ert_expect_layout(p, x, ERT_LAYOUT_PLANAR));
  ERT_TRY(ert_expect_layout(p, y, (ert_layout)x->layout));
  ERT_TRY(ert_expect_dtype(p, y, (edgert_dtype)x->dtype));
  if (y->rank != x->rank) return ert_reject(p, "rank of the output", "that of the input", "%d", y->rank);
  if (block16 && x->rank < 2) return ert_reject(p, "rank in blocks of channels", "at least 2", "%d", x->rank);
  ert_resize_rule rule;
  float filler;
  ERT_TRY(read_rule(p, &rule));
  ERT_TRY(ert_float_or(p, "extrapolation", 0, &filler));
  if (rule.mode != ERT_RESIZE_NEAREST) ERT_TRY(ert_expect_dtype(p, x, EDGERT_F32));
  if (y->elements == 0) return EDGERT_OK;
  if (x->elements == 0) return ert_reject(p, "input", "something to resize", "no elements");

  ert_resample plan = {.size = ert_dtype_bytes(x->dtype), .filler = filler_bits(x->dtype, filler)};
  size_t bytes = 0;
  ERT_TRY(plan_axes(p, &rule, &plan, &bytes));
  if (block16 && plan.axes[1].taps != 0)
    return ert_reject(p, "channels in blocks", "as many as before", "a resized axis 1");
  void *memory;
  ERT_TRY(ert_state(p, sizeof(resize_state) + bytes, &memory));
  resize_state *state = memory;
  fill_axes(&rule, &plan, x->rank, (char *)(state + 1));
  shape_plan(&plan, store_axes(&plan, x, y));
  const ert_resize_axis *last = &plan.axes[plan.rank - 1];
  plan.doubled = is_doubling(last) ? 1 + (plan.rank > 1 && is_doubling(last - 1)) : 0;
  *state = (resize_state){.plan = plan, .nearest = rule.mode == ERT_RESIZE_NEAREST};
  if (!state->nearest) step->scratch_bytes = (size_t)ert_resample_scratch(&plan) * sizeof(float);
  step->tasks = ert_cut(plan.rows.elements, y->elements / plan.rows.elements * (state->nearest ? 1 : 4), p->workers);
  return EDGERT_OK;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  const resize_state *state = step->state;
  if (step->tasks == 0) return;
  int64_t from = ert_cut_at(state->plan.rows.elements, step->tasks, begin),
          to = ert_cut_at(state->plan.rows.elements, step->tasks, end);
  if (state->nearest)
    ert_resample_nearest(&state->plan, step->out[0]->data, step->in[0]->data, from, to);
  else
    ert_resample_mix(&state->plan, step->out[0]->data, step->in[0]->data, from, to, scratch);
}

const ert_kernel ert_kernel_resize = {.name = "resize", .prepare = prepare, .run = run, .views = true};
