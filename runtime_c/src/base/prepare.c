/* The helpers that kernels prove their operands and attributes with. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/kernel.h"
#include "base/room.h"
#include "base/status.h"

static edgert_status reject(const ert_prepare *p, const char *what, const char *expected, const char *got) {
  const ert_step *s = p->step;
  ert_text where = ert_format("step %" PRIu32 ", %s, node '%.80s': %s", s->index, s->kernel->name, s->node, what);
  return ert_fail(EDGERT_ERROR_BAD_STEP, where.s, expected, got);
}

edgert_status ert_reject(const ert_prepare *p, const char *what, const char *expected, const char *got, ...) {
  ert_text text;
  va_list arguments;
  va_start(arguments, got);
  if (vsnprintf(text.s, sizeof text.s, got, arguments) < 0) text.s[0] = '\0';
  va_end(arguments);
  return reject(p, what, expected, text.s);
}

edgert_status ert_state(ert_prepare *p, size_t bytes, void **out) {
  edgert_status status = ert_room_take(p->room, bytes, "state of a step", out);
  p->step->state = *out;
  return status;
}

static edgert_status expect_count(const ert_prepare *p, const char *what, uint32_t got, uint32_t min, uint32_t max) {
  if (got >= min && got <= max) return EDGERT_OK;
  ert_text expected = min == max ? ert_format("%" PRIu32, min) : ert_format("%" PRIu32 " to %" PRIu32, min, max);
  return reject(p, what, expected.s, ert_format("%" PRIu32, got).s);
}

edgert_status ert_expect_operands(const ert_prepare *p, uint32_t min_in, uint32_t max_in, uint32_t min_out,
                                  uint32_t max_out) {
  const ert_step *s = p->step;
  ERT_TRY(expect_count(p, "number of inputs", s->n_in, min_in, max_in));
  ERT_TRY(expect_count(p, "number of outputs", s->n_out, min_out, max_out));
  for (uint32_t i = 0; i < min_in; i++)
    if (!s->in[i]) return reject(p, ert_format("input %" PRIu32, i).s, "a tensor", "none");
  return EDGERT_OK;
}

edgert_status ert_expect_dtype(const ert_prepare *p, const ert_tensor *t, edgert_dtype dtype) {
  if (t->dtype == dtype) return EDGERT_OK;
  return reject(p, ert_format("type of '%.80s'", t->name).s, ert_dtype_name((uint8_t)dtype), ert_dtype_name(t->dtype));
}

edgert_status ert_expect_layout(const ert_prepare *p, const ert_tensor *t, ert_layout layout) {
  if (t->layout == layout) return EDGERT_OK;
  ert_text what = ert_format("layout of '%.80s'", t->name);
  return reject(p, what.s, ert_layout_name((uint8_t)layout), ert_layout_name(t->layout));
}

edgert_status ert_expect_planar(const ert_prepare *p) {
  const ert_step *s = p->step;
  for (uint32_t i = 0; i < s->n_in; i++)
    if (s->in[i]) ERT_TRY(ert_expect_layout(p, s->in[i], ERT_LAYOUT_PLANAR));
  for (uint32_t i = 0; i < s->n_out; i++) ERT_TRY(ert_expect_layout(p, s->out[i], ERT_LAYOUT_PLANAR));
  return EDGERT_OK;
}

static ert_text shape_text(uint32_t rank, const int64_t *shape) {
  ert_text text = {"["};
  size_t end = 1;
  for (uint32_t i = 0; i < rank && end + 24 < sizeof text.s; i++) {
    int n = snprintf(text.s + end, sizeof text.s - end, "%s%" PRId64, i ? "," : "", shape[i]);
    end += n > 0 ? (size_t)n : 0;
  }
  text.s[end] = ']';
  text.s[end + 1] = '\0';
  return text;
}

edgert_status ert_expect_shape(const ert_prepare *p, const ert_tensor *t, uint32_t rank, const int64_t *shape) {
  if (t->rank == rank && (rank == 0 || memcmp(t->shape, shape, rank * sizeof *shape) == 0)) return EDGERT_OK;
  return reject(p, ert_format("shape of '%.80s'", t->name).s, shape_text(rank, shape).s,
                shape_text(t->rank, t->shape).s);
}

edgert_status ert_expect_same_type(const ert_prepare *p, const ert_tensor *a, const ert_tensor *b) {
  ERT_TRY(ert_expect_dtype(p, b, (edgert_dtype)a->dtype));
  ERT_TRY(ert_expect_layout(p, b, (ert_layout)a->layout));
  return ert_expect_shape(p, b, a->rank, a->shape);
}

const ert_attribute *ert_attribute_find(const ert_prepare *p, const char *name) {
  const ert_step *s = p->step;
  for (uint32_t i = 0; i < s->n_attributes; i++)
    if (*s->attributes[i].name == *name && strcmp(s->attributes[i].name, name) == 0) return &s->attributes[i];
  return NULL;
}

static edgert_status find(const ert_prepare *p, const char *name, const ert_attribute **out) {
  *out = ert_attribute_find(p, name);
  if (*out) return EDGERT_OK;
  return reject(p, ert_format("attribute '%s'", name).s, "a value", "none");
}

edgert_status ert_ints(const ert_prepare *p, const char *name, uint32_t count, int64_t lo, int64_t hi,
                       const int64_t **out) {
  const ert_attribute *a;
  ERT_TRY(find(p, name, &a));
  if (a->n_ints != count)
    return expect_count(p, ert_format("attribute '%s', number of integers", name).s, a->n_ints, count, count);
  for (uint32_t i = 0; i < count; i++)
    if (a->ints[i] < lo || a->ints[i] > hi)
      return reject(p, ert_format("attribute '%s'", name).s, ert_format("%" PRId64 " to %" PRId64, lo, hi).s,
                    ert_format("%" PRId64, a->ints[i]).s);
  *out = a->ints;
  return EDGERT_OK;
}

edgert_status ert_int(const ert_prepare *p, const char *name, int64_t lo, int64_t hi, int64_t *out) {
  const int64_t *values;
  ERT_TRY(ert_ints(p, name, 1, lo, hi, &values));
  *out = values[0];
  return EDGERT_OK;
}

edgert_status ert_int_or(const ert_prepare *p, const char *name, int64_t lo, int64_t hi, int64_t fallback,
                         int64_t *out) {
  *out = fallback;
  return ert_attribute_find(p, name) ? ert_int(p, name, lo, hi, out) : EDGERT_OK;
}

edgert_status ert_floats(const ert_prepare *p, const char *name, uint32_t count, const float **out) {
  const ert_attribute *a;
  ERT_TRY(find(p, name, &a));
  if (a->n_floats != count)
    return expect_count(p, ert_format("attribute '%s', number of floats", name).s, a->n_floats, count, count);
  *out = a->floats;
  return EDGERT_OK;
}

edgert_status ert_float_or(const ert_prepare *p, const char *name, float fallback, float *out) {
  *out = fallback;
  if (!ert_attribute_find(p, name)) return EDGERT_OK;
  const float *values;
  ERT_TRY(ert_floats(p, name, 1, &values));
  *out = values[0];
  return EDGERT_OK;
}

edgert_status ert_choice(const ert_prepare *p, const char *name, const char *const *choices, int *out) {
  const ert_attribute *a;
  ERT_TRY(find(p, name, &a));
  for (int i = 0; choices[i]; i++) {
    if (strcmp(a->text, choices[i]) == 0) {
      *out = i;
      return EDGERT_OK;
    }
  }
  ert_text expected = {""};
  for (int i = 0; choices[i]; i++) expected = ert_format("%.200s%s%s", expected.s, i ? ", " : "", choices[i]);
  return reject(p, ert_format("attribute '%s'", name).s, expected.s, ert_format("'%.80s'", a->text).s);
}
