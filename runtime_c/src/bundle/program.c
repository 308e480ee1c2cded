/* Programs: every shape, place and reference in range, every output written. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "bundle/bundle.h"

/* A program and the lists its parts refer to. */
typedef struct context {
  const char *target;
  ert_vector segments, tensors, steps, inputs, outputs;
  uint64_t arena_bytes;
} context;

/* What a tensor's table says, read once its numbers are known to be sound. */
typedef struct tensor {
  uint8_t dtype, layout, place;
  uint32_t index;
  uint64_t offset;
  int64_t elements;
  size_t bytes;
} tensor;

static edgert_status fail_tensor(const context *c, uint32_t id, const char *what, const char *expected,
                                 const char *got) {
  const char *name = ert_string(ert_item(c->tensors, id), ERT_FIELD_TENSOR_NAME);
  ert_text where = ert_format("program '%.40s', tensor %" PRIu32 " '%.80s': %s", c->target, id, name, what);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected, got);
}

static edgert_status fail_step(const context *c, uint32_t number, const char *what, const char *expected,
                               const char *got) {
  const char *kernel = ert_string(ert_item(c->steps, number), ERT_FIELD_STEP_KERNEL);
  ert_text where = ert_format("program '%.40s', step %" PRIu32 ", %.40s: %s", c->target, number, kernel, what);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected, got);
}

static ert_text below(uint64_t limit) { return ert_format("below %" PRIu64, limit); }

static ert_text number(uint64_t value) { return ert_format("%" PRIu64, value); }

/* Reads the tensor `id` as far as the type goes. */
static edgert_status read_type(const context *c, uint32_t id, tensor *out) {
  ert_table table = ert_item(c->tensors, id);
  *out = (tensor){
      .dtype = ert_u8(table, ERT_FIELD_TENSOR_DTYPE, 0),
      .layout = ert_u8(table, ERT_FIELD_TENSOR_LAYOUT, 0),
      .place = ert_u8(table, ERT_FIELD_TENSOR_PLACE, 0),
      .index = ert_u32(table, ERT_FIELD_TENSOR_INDEX, 0),
      .offset = ert_u64(table, ERT_FIELD_TENSOR_OFFSET, 0),
  };
  ert_vector shape = ert_items(table, ERT_FIELD_TENSOR_SHAPE);
  if (!ert_dtype_bytes(out->dtype)) return fail_tensor(c, id, "element type", "1 to 10", number(out->dtype).s);
  if (out->layout >= ERT_LAYOUT_COUNT)
    return fail_tensor(c, id, "layout", below(ERT_LAYOUT_COUNT).s, number(out->layout).s);
  if (!ert_tensor_size(out->dtype, out->layout, shape.count, shape.data, &out->elements, &out->bytes))
    return fail_tensor(c, id, "shape", "a rank that suits the layout, dimensions from 0, at most 2^48 bytes",
                       ert_format("%" PRIu32 " other dimensions", shape.count).s);
  return EDGERT_OK;
}

/* A tensor in the caller's buffer: the input or output itself, or another view of all of it. */
static edgert_status verify_bound(const context *c, uint32_t id, const tensor *t, ert_vector bindings) {
  if (t->layout != ERT_LAYOUT_PLANAR || t->offset != 0)
    return fail_tensor(c, id, "an input or output", "planar layout and offset 0",
                       ert_format("%s and %" PRIu64, ert_layout_name(t->layout), t->offset).s);
  if (t->index >= bindings.count)
    return fail_tensor(c, id, "position among the inputs or outputs", below(bindings.count).s, number(t->index).s);
  uint32_t owner = ((const uint32_t *)bindings.data)[t->index];
  if (owner == id) return EDGERT_OK;
  tensor other;
  if (owner >= c->tensors.count)
    return fail_tensor(c, id, "input or output it belongs to", below(c->tensors.count).s, number(owner).s);
  ERT_TRY(read_type(c, owner, &other));
  if (other.bytes != t->bytes || ert_dtype_bytes(other.dtype) != ert_dtype_bytes(t->dtype))
    return fail_tensor(c, id, "size of a view of an input or output", ert_format("%zu bytes", other.bytes).s,
                       ert_format("%zu", t->bytes).s);
  return EDGERT_OK;
}

static edgert_status verify_place(const context *c, uint32_t id, const tensor *t) {
  uint64_t room = c->arena_bytes;
  switch (t->place) {
    case ERT_PLACE_INPUT:
      return verify_bound(c, id, t, c->inputs);
    case ERT_PLACE_OUTPUT:
      return verify_bound(c, id, t, c->outputs);
    case ERT_PLACE_SEGMENT:
      if (t->index >= c->segments.count)
        return fail_tensor(c, id, "segment", below(c->segments.count).s, number(t->index).s);
      room = ert_u64(ert_item(c->segments, t->index), ERT_FIELD_SEGMENT_LENGTH, 0);
      break;
    case ERT_PLACE_ARENA:
      break;
    default:
      return fail_tensor(c, id, "place", "0 to 3", number(t->place).s);
  }
  if (t->offset % ERT_ALIGNMENT != 0) return fail_tensor(c, id, "offset", "a multiple of 64", number(t->offset).s);
  if (!ert_within(t->offset, t->bytes, room))
    return fail_tensor(c, id, "extent", ert_format("bytes within %" PRIu64, room).s,
                       ert_format("%zu at %" PRIu64, t->bytes, t->offset).s);
  return EDGERT_OK;
}

/* The count of a tensor of which only a part is meaningful. */
static edgert_status verify_extent(const context *c, uint32_t id) {
  ert_table table = ert_item(c->tensors, id);
  int8_t axis = (int8_t)ert_u8(table, ERT_FIELD_TENSOR_EXTENT_AXIS, UINT8_MAX);
  if (axis == -1) return EDGERT_OK;
  uint32_t rank = ert_items(table, ERT_FIELD_TENSOR_SHAPE).count;
  uint32_t count = ert_u32(table, ERT_FIELD_TENSOR_EXTENT_COUNT, 0);
  if (axis < 0 || (uint32_t)axis >= rank)
    return fail_tensor(c, id, "axis of its extent", ert_format("-1 or below %" PRIu32, rank).s,
                       ert_format("%d", axis).s);
  if (count >= c->tensors.count)
    return fail_tensor(c, id, "tensor of its extent", below(c->tensors.count).s, number(count).s);
  tensor t;
  ERT_TRY(read_type(c, count, &t));
  if (t.dtype != EDGERT_I64 || t.elements != 1 || t.layout != ERT_LAYOUT_PLANAR)
    return fail_tensor(
        c, count, "the count of an extent", "one planar i64",
        ert_format("%" PRId64 " %s %s", t.elements, ert_layout_name(t.layout), ert_dtype_name(t.dtype)).s);
  return EDGERT_OK;
}

static edgert_status verify_tensors(const context *c) {
  for (uint32_t id = 0; id < c->tensors.count; id++) {
    tensor t;
    ERT_TRY(read_type(c, id, &t));
    ERT_TRY(verify_place(c, id, &t));
    ERT_TRY(verify_extent(c, id));
  }
  return EDGERT_OK;
}

/* The inputs or outputs: tensors that say of themselves that they are. */
static edgert_status verify_bindings(const context *c, const char *what, ert_vector bindings, ert_place place) {
  const uint32_t *ids = bindings.data;
  for (uint32_t i = 0; i < bindings.count; i++) {
    ert_text where = ert_format("program '%.40s', %s %" PRIu32, c->target, what, i);
    if (ids[i] >= c->tensors.count)
      return ert_fail(EDGERT_ERROR_MALFORMED, where.s, ert_format("a tensor %s", below(c->tensors.count).s).s,
                      number(ids[i]).s);
    ert_table table = ert_item(c->tensors, ids[i]);
    uint32_t got_place = ert_u8(table, ERT_FIELD_TENSOR_PLACE, 0), index = ert_u32(table, ERT_FIELD_TENSOR_INDEX, 0);
    if (got_place != (uint32_t)place || index != i)
      return ert_fail(EDGERT_ERROR_MALFORMED, where.s,
                      ert_format("a tensor with place %d and index %" PRIu32, place, i).s,
                      ert_format("place %" PRIu32 " and index %" PRIu32, got_place, index).s);
  }
  return EDGERT_OK;
}

static edgert_status verify_attributes(const context *c, uint32_t step) {
  ert_vector attributes = ert_items(ert_item(c->steps, step), ERT_FIELD_STEP_ATTRIBUTES);
  const char *previous = "";
  for (uint32_t i = 0; i < attributes.count; i++) {
    const char *name = ert_string(ert_item(attributes, i), ERT_FIELD_ATTRIBUTE_NAME);
    if (strcmp(previous, name) >= 0)
      return fail_step(c, step, "attributes", ert_format("a name after '%.80s'", previous).s,
                       ert_format("'%.80s'", name).s);
    previous = name;
  }
  return EDGERT_OK;
}

/* Proves a step's references, and marks the program outputs it writes. */
static edgert_status verify_step(const context *c, uint32_t step, uint8_t *written) {
  ert_table table = ert_item(c->steps, step);
  if (*ert_string(table, ERT_FIELD_STEP_KERNEL) == '\0') return fail_step(c, step, "kernel", "a name", "none");
  ert_vector inputs = ert_items(table, ERT_FIELD_STEP_INPUTS), outputs = ert_items(table, ERT_FIELD_STEP_OUTPUTS);
  const int32_t *in = inputs.data, *out = outputs.data;
  for (uint32_t i = 0; i < inputs.count; i++)
    if (in[i] < -1 || in[i] >= (int64_t)c->tensors.count)
      return fail_step(c, step, ert_format("input %" PRIu32, i).s,
                       ert_format("a tensor %s, or -1", below(c->tensors.count).s).s, ert_format("%" PRId32, in[i]).s);
  for (uint32_t i = 0; i < outputs.count; i++) {
    ert_text what = ert_format("output %" PRIu32, i);
    if (out[i] < 0 || out[i] >= (int64_t)c->tensors.count)
      return fail_step(c, step, what.s, ert_format("a tensor %s", below(c->tensors.count).s).s,
                       ert_format("%" PRId32, out[i]).s);
    ert_table target = ert_item(c->tensors, (uint32_t)out[i]);
    uint8_t place = ert_u8(target, ERT_FIELD_TENSOR_PLACE, 0);
    if (place != ERT_PLACE_ARENA && place != ERT_PLACE_OUTPUT)
      return fail_step(c, step, what.s, "a tensor in the arena or among the outputs", ert_format("place %u", place).s);
    if (place == ERT_PLACE_OUTPUT) written[ert_u32(target, ERT_FIELD_TENSOR_INDEX, 0)] = 1;
  }
  return verify_attributes(c, step);
}

static edgert_status verify_steps(const context *c, uint8_t *written) {
  for (uint32_t i = 0; i < c->steps.count; i++) ERT_TRY(verify_step(c, i, written));
  for (uint32_t i = 0; i < c->outputs.count; i++)
    if (!written[i])
      return fail_tensor(c, ((const uint32_t *)c->outputs.data)[i], "program output", "a step that writes it", "none");
  return EDGERT_OK;
}

static edgert_status verify_program(const edgert_bundle *bundle, ert_table program, uint32_t position) {
  context c = {
      .target = ert_string(program, ERT_FIELD_PROGRAM_TARGET),
      .segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS),
      .tensors = ert_items(program, ERT_FIELD_PROGRAM_TENSORS),
      .steps = ert_items(program, ERT_FIELD_PROGRAM_STEPS),
      .inputs = ert_items(program, ERT_FIELD_PROGRAM_INPUTS),
      .outputs = ert_items(program, ERT_FIELD_PROGRAM_OUTPUTS),
      .arena_bytes = ert_u64(program, ERT_FIELD_PROGRAM_ARENA_BYTES, 0),
  };
  if (*c.target == '\0' || *ert_string(program, ERT_FIELD_PROGRAM_ARCH) == '\0')
    return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("program %" PRIu32, position).s, "a target and an arch", "none");
  ERT_TRY(verify_tensors(&c));
  ERT_TRY(verify_bindings(&c, "input", c.inputs, ERT_PLACE_INPUT));
  ERT_TRY(verify_bindings(&c, "output", c.outputs, ERT_PLACE_OUTPUT));
  void *written = NULL;
  ERT_TRY(ert_allocate(c.outputs.count, "marks of written outputs", &written));
  edgert_status status = verify_steps(&c, written);
  ert_free(written);
  return status;
}

edgert_status ert_programs_verify(const edgert_bundle *bundle) {
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS);
  for (uint32_t i = 0; i < programs.count; i++) ERT_TRY(verify_program(bundle, ert_item(programs, i), i));
  return EDGERT_OK;
}
