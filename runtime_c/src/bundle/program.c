/* Programs: every shape, place and reference in range, every output written, cores and phases in order. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "bundle/program.h"

edgert_status ert_fail_tensor(const ert_program *p, uint32_t id, const char *what, const char *expected,
                              const char *got) {
  const char *name = ert_string(ert_item(p->tensors, id), ERT_FIELD_TENSOR_NAME);
  ert_text where = ert_format("program '%.40s', tensor %" PRIu32 " '%.80s': %s", p->target, id, name, what);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected, got);
}

edgert_status ert_fail_step(const ert_program *p, uint32_t number, const char *what, const char *expected,
                            const char *got) {
  const char *kernel = ert_string(ert_item(p->steps, number), ERT_FIELD_STEP_KERNEL);
  ert_text where = ert_format("program '%.40s', step %" PRIu32 ", %.40s: %s", p->target, number, kernel, what);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected, got);
}

static ert_text below(uint64_t limit) { return ert_format("below %" PRIu64, limit); }

static ert_text number(uint64_t value) { return ert_format("%" PRIu64, value); }

edgert_status ert_entry_read(const ert_program *p, uint32_t id, ert_entry *out) {
  ert_table table = ert_item(p->tensors, id);
  ert_vector shape = ert_items(table, ERT_FIELD_TENSOR_SHAPE), halo = ert_items(table, ERT_FIELD_TENSOR_HALO);
  *out = (ert_entry){
      .shape = shape.data,
      .halo = halo.count ? halo.data : NULL,
      .rank = shape.count,
      .dtype = ert_u8(table, ERT_FIELD_TENSOR_DTYPE, 0),
      .layout = ert_u8(table, ERT_FIELD_TENSOR_LAYOUT, 0),
      .place = ert_u8(table, ERT_FIELD_TENSOR_PLACE, 0),
      .index = ert_u32(table, ERT_FIELD_TENSOR_INDEX, 0),
      .root = ert_u32(table, ERT_FIELD_TENSOR_ROOT, ERT_NO_ROOT),
      .offset = ert_u64(table, ERT_FIELD_TENSOR_OFFSET, 0),
  };
  if (!ert_dtype_bytes(out->dtype)) return ert_fail_tensor(p, id, "element type", "1 to 12", number(out->dtype).s);
  const bool device = out->place == ERT_PLACE_DEVICE, half = out->dtype == EDGERT_F16;
  if (ert_dtype_reduced(out->dtype) && out->place != ERT_PLACE_SEGMENT && !(device && half))
    return ert_fail_tensor(p, id, "place of f16 or bf16", half ? "a segment or a device" : "a segment",
                           number(out->place).s);
  if (out->layout >= ERT_LAYOUT_COUNT)
    return ert_fail_tensor(p, id, "layout", below(ERT_LAYOUT_COUNT).s, number(out->layout).s);
  if (device != (out->layout == ERT_LAYOUT_PLANES))
    return ert_fail_tensor(p, id, "layout", device ? "planes, as it lies on a device" : "one for the processor",
                           ert_layout_name(out->layout));
  ERT_TRY(ert_halo_verify(p, id, halo, out->layout, out->rank));
  if (!ert_tensor_size(out->dtype, out->layout, out->rank, out->shape, out->halo, &out->elements, &out->bytes))
    return ert_fail_tensor(p, id, "shape", "a rank that suits the layout, dimensions from 0, at most 2^48 bytes",
                           ert_format("%" PRIu32 " other dimensions", out->rank).s);
  return EDGERT_OK;
}

/* A tensor in the caller's buffer: the input or output itself, or another one over all of it. */
static edgert_status verify_bound(const ert_program *p, uint32_t id, const ert_entry *t, ert_vector bindings) {
  if (t->layout != ERT_LAYOUT_PLANAR || t->offset != 0)
    return ert_fail_tensor(p, id, "an input or output", "planar layout and offset 0",
                           ert_format("%s and %" PRIu64, ert_layout_name(t->layout), t->offset).s);
  if (t->index >= bindings.count)
    return ert_fail_tensor(p, id, "position among the inputs or outputs", below(bindings.count).s, number(t->index).s);
  uint32_t owner = ((const uint32_t *)bindings.data)[t->index];
  if (owner == id) return EDGERT_OK;
  ert_entry other;
  if (owner >= p->tensors.count)
    return ert_fail_tensor(p, id, "input or output it belongs to", below(p->tensors.count).s, number(owner).s);
  ERT_TRY(ert_entry_read(p, owner, &other));
  if (other.bytes != t->bytes || ert_dtype_bytes(other.dtype) != ert_dtype_bytes(t->dtype))
    return ert_fail_tensor(p, id, "size of a tensor over an input or output", ert_format("%zu bytes", other.bytes).s,
                           ert_format("%zu", t->bytes).s);
  return EDGERT_OK;
}

static edgert_status verify_place(const ert_program *p, uint32_t id, const ert_entry *t) {
  uint64_t room = p->arena_bytes, unit = ERT_ALIGNMENT;
  switch (t->place) {
    case ERT_PLACE_INPUT:
      return verify_bound(p, id, t, p->inputs);
    case ERT_PLACE_OUTPUT:
      return verify_bound(p, id, t, p->outputs);
    case ERT_PLACE_SEGMENT:
      if (t->index >= p->segments.count)
        return ert_fail_tensor(p, id, "segment", below(p->segments.count).s, number(t->index).s);
      room = ert_u64(ert_item(p->segments, t->index), ERT_FIELD_SEGMENT_LENGTH, 0);
      break;
    case ERT_PLACE_ARENA:
      break;
    case ERT_PLACE_DEVICE:
      if (*p->device == '\0')
        return ert_fail_tensor(p, id, "place", "0 to 3, as the program is for no device", number(t->place).s);
      room = p->device_bytes;
      unit = ERT_DEVICE_ALIGNMENT;
      break;
    default:
      return ert_fail_tensor(p, id, "place", "0 to 4", number(t->place).s);
  }
  if (t->offset % unit != 0)
    return ert_fail_tensor(p, id, "offset", ert_format("a multiple of %" PRIu64, unit).s, number(t->offset).s);
  if (!ert_within(t->offset, t->bytes, room))
    return ert_fail_tensor(p, id, "extent", ert_format("bytes within %" PRIu64, room).s,
                           ert_format("%zu at %" PRIu64, t->bytes, t->offset).s);
  return EDGERT_OK;
}

/* The count of a tensor of which only a part is meaningful. */
static edgert_status verify_extent(const ert_program *p, uint32_t id) {
  ert_table table = ert_item(p->tensors, id);
  int8_t axis = (int8_t)ert_u8(table, ERT_FIELD_TENSOR_EXTENT_AXIS, UINT8_MAX);
  if (axis == -1) return EDGERT_OK;
  uint32_t rank = ert_items(table, ERT_FIELD_TENSOR_SHAPE).count;
  uint32_t count = ert_u32(table, ERT_FIELD_TENSOR_EXTENT_COUNT, 0);
  if (axis < 0 || (uint32_t)axis >= rank)
    return ert_fail_tensor(p, id, "axis of its extent", ert_format("-1 or below %" PRIu32, rank).s,
                           ert_format("%d", axis).s);
  if (count >= p->tensors.count)
    return ert_fail_tensor(p, id, "tensor of its extent", below(p->tensors.count).s, number(count).s);
  ert_entry t;
  ERT_TRY(ert_entry_read(p, count, &t));
  bool view = t.root != ERT_NO_ROOT;
  if (t.dtype != EDGERT_I64 || t.elements != 1 || t.layout != ERT_LAYOUT_PLANAR || view)
    return ert_fail_tensor(p, count, "the count of an extent", "one planar i64, no view",
                           ert_format("%" PRId64 " %s %s%s", t.elements, ert_layout_name(t.layout),
                                      ert_dtype_name(t.dtype), view ? ", a view" : "")
                               .s);
  return EDGERT_OK;
}

/* A tensor that is no view: where it lies, and what of it has meaning. */
static edgert_status verify_root(const ert_program *p, uint32_t id, const ert_entry *t) {
  uint32_t begin = ert_items(ert_item(p->tensors, id), ERT_FIELD_TENSOR_BEGIN).count;
  if (begin > 0) return ert_fail_tensor(p, id, "begin of a tensor that is no view", "none", number(begin).s);
  ERT_TRY(verify_place(p, id, t));
  return verify_extent(p, id);
}

static edgert_status verify_tensors(const ert_program *p) {
  for (uint32_t id = 0; id < p->tensors.count; id++) {
    ert_entry t;
    ERT_TRY(ert_entry_read(p, id, &t));
    ERT_TRY(t.root == ERT_NO_ROOT ? verify_root(p, id, &t) : ert_view_verify(p, id, &t));
  }
  return EDGERT_OK;
}

/* The inputs or outputs: tensors that say of themselves that they are. */
static edgert_status verify_bindings(const ert_program *p, const char *what, ert_vector bindings, ert_place place) {
  const uint32_t *ids = bindings.data;
  for (uint32_t i = 0; i < bindings.count; i++) {
    if (ids[i] >= p->tensors.count)
      return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("program '%.40s', %s %" PRIu32, p->target, what, i).s,
                      ert_format("a tensor %s", below(p->tensors.count).s).s, number(ids[i]).s);
    ert_table table = ert_item(p->tensors, ids[i]);
    uint32_t got_place = ert_u8(table, ERT_FIELD_TENSOR_PLACE, 0), index = ert_u32(table, ERT_FIELD_TENSOR_INDEX, 0);
    bool view = ert_u32(table, ERT_FIELD_TENSOR_ROOT, ERT_NO_ROOT) != ERT_NO_ROOT;
    if (got_place != (uint32_t)place || index != i || view)
      return ert_fail(
          EDGERT_ERROR_MALFORMED, ert_format("program '%.40s', %s %" PRIu32, p->target, what, i).s,
          ert_format("a tensor with place %d and index %" PRIu32 ", no view", place, i).s,
          ert_format("place %" PRIu32 " and index %" PRIu32 "%s", got_place, index, view ? ", a view" : "").s);
  }
  return EDGERT_OK;
}

static edgert_status verify_attributes(const ert_program *p, uint32_t step) {
  ert_vector attributes = ert_items(ert_item(p->steps, step), ERT_FIELD_STEP_ATTRIBUTES);
  const char *previous = "";
  for (uint32_t i = 0; i < attributes.count; i++) {
    const char *name = ert_string(ert_item(attributes, i), ERT_FIELD_ATTRIBUTE_NAME);
    if (strcmp(previous, name) >= 0)
      return ert_fail_step(p, step, "attributes", ert_format("a name after '%.80s'", previous).s,
                           ert_format("'%.80s'", name).s);
    previous = name;
  }
  return EDGERT_OK;
}

/* Proves a step's references, and marks the program outputs it writes. */
static edgert_status verify_step(const ert_program *p, uint32_t step, uint8_t *written) {
  ert_table table = ert_item(p->steps, step);
  if (*ert_string(table, ERT_FIELD_STEP_KERNEL) == '\0') return ert_fail_step(p, step, "kernel", "a name", "none");
  ert_vector inputs = ert_items(table, ERT_FIELD_STEP_INPUTS), outputs = ert_items(table, ERT_FIELD_STEP_OUTPUTS);
  const int32_t *in = inputs.data, *out = outputs.data;
  for (uint32_t i = 0; i < inputs.count; i++)
    if (in[i] < -1 || in[i] >= (int64_t)p->tensors.count)
      return ert_fail_step(p, step, ert_format("input %" PRIu32, i).s,
                           ert_format("a tensor %s, or -1", below(p->tensors.count).s).s,
                           ert_format("%" PRId32, in[i]).s);
  for (uint32_t i = 0; i < outputs.count; i++) {
    if (out[i] < 0 || out[i] >= (int64_t)p->tensors.count)
      return ert_fail_step(p, step, ert_format("output %" PRIu32, i).s,
                           ert_format("a tensor %s", below(p->tensors.count).s).s, ert_format("%" PRId32, out[i]).s);
    ert_table target = ert_item(p->tensors, (uint32_t)out[i]);
    uint8_t place = ert_u8(target, ERT_FIELD_TENSOR_PLACE, 0);
    if (place != ERT_PLACE_ARENA && place != ERT_PLACE_OUTPUT && place != ERT_PLACE_DEVICE)
      return ert_fail_step(p, step, ert_format("output %" PRIu32, i).s,
                           "a tensor in the arena, among the outputs or on a device", ert_format("place %u", place).s);
    if (place == ERT_PLACE_OUTPUT) written[ert_u32(target, ERT_FIELD_TENSOR_INDEX, 0)] = 1;
  }
  return verify_attributes(p, step);
}

static edgert_status fail_program(const ert_program *p, const char *expected, const char *got) {
  return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("program '%.40s'", p->target).s, expected, got);
}

/* Which cores there are, and which one runs each step when. */
static edgert_status verify_schedule(const ert_program *p, ert_vector speeds) {
  if (p->cores < 1 || p->cores > ERT_ALL_CORES) return fail_program(p, "1 to 255 cores", number(p->cores).s);
  if (speeds.count != 0 && speeds.count != p->cores)
    return fail_program(p, ert_format("no speeds, or those of %" PRIu32 " cores", p->cores).s, number(speeds.count).s);
  float fastest = speeds.count ? 0.0f : 1.0f;
  for (uint32_t i = 0; i < speeds.count; i++) {
    float speed = ((const float *)speeds.data)[i];
    if (!(speed > 0 && speed <= 1))
      return fail_program(p, "speeds above 0, relative to the fastest core's 1",
                          ert_format("%g of core %" PRIu32, (double)speed, i).s);
    fastest = fmaxf(fastest, speed);
  }
  if (fastest < 1) return fail_program(p, "a fastest core with speed 1", ert_format("%g", (double)fastest).s);
  for (uint32_t i = 0, previous = 0; i < p->steps.count; i++) {
    ert_table step = ert_item(p->steps, i);
    uint8_t core = ert_u8(step, ERT_FIELD_STEP_CORE, 0);
    uint32_t phase = ert_u32(step, ERT_FIELD_STEP_PHASE, 0);
    if (core >= p->cores && core != ERT_ALL_CORES)
      return ert_fail_step(p, i, "core", ert_format("below %" PRIu32 ", or 255", p->cores).s, number(core).s);
    if (phase != previous && (i == 0 || phase != previous + 1))
      return ert_fail_step(p, i, "phase", i == 0 ? "0" : ert_format("%" PRIu32 " or the next", previous).s,
                           number(phase).s);
    previous = phase;
  }
  return EDGERT_OK;
}

static edgert_status verify_steps(const ert_program *p, uint8_t *written) {
  for (uint32_t i = 0; i < p->steps.count; i++) ERT_TRY(verify_step(p, i, written));
  for (uint32_t i = 0; i < p->outputs.count; i++)
    if (!written[i])
      return ert_fail_tensor(p, ((const uint32_t *)p->outputs.data)[i], "program output", "a step that writes it",
                             "none");
  return EDGERT_OK;
}

/* Nothing but its place is asked of what tells people about the planner's decisions. */
static edgert_status verify_plan(const ert_program *p, uint32_t segment) {
  if (segment == UINT32_MAX || segment < p->segments.count) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("program '%.40s': plan", p->target).s,
                  ert_format("-1 or a segment %s", below(p->segments.count).s).s,
                  ert_format("%" PRId32, (int32_t)segment).s);
}

static edgert_status verify_program(const edgert_bundle *bundle, ert_table program, uint32_t position,
                                    uint64_t *pairs) {
  ert_program p = {
      .target = ert_string(program, ERT_FIELD_PROGRAM_TARGET),
      .device = ert_string(program, ERT_FIELD_PROGRAM_DEVICE),
      .segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS),
      .tensors = ert_items(program, ERT_FIELD_PROGRAM_TENSORS),
      .steps = ert_items(program, ERT_FIELD_PROGRAM_STEPS),
      .inputs = ert_items(program, ERT_FIELD_PROGRAM_INPUTS),
      .outputs = ert_items(program, ERT_FIELD_PROGRAM_OUTPUTS),
      .modules = ert_items(program, ERT_FIELD_PROGRAM_MODULES),
      .arena_bytes = ert_u64(program, ERT_FIELD_PROGRAM_ARENA_BYTES, 0),
      .device_bytes = ert_u64(program, ERT_FIELD_PROGRAM_DEVICE_BYTES, 0),
      .cores = ert_u32(program, ERT_FIELD_PROGRAM_CORES, 1),
  };
  if (*p.target == '\0' || *ert_string(program, ERT_FIELD_PROGRAM_ARCH) == '\0')
    return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("program %" PRIu32, position).s, "a target and an arch", "none");
  ERT_TRY(verify_plan(&p, ert_u32(program, ERT_FIELD_PROGRAM_PLAN, UINT32_MAX)));
  ERT_TRY(ert_device_verify(&p));
  ERT_TRY(verify_tensors(&p));
  ERT_TRY(verify_bindings(&p, "input", p.inputs, ERT_PLACE_INPUT));
  ERT_TRY(verify_bindings(&p, "output", p.outputs, ERT_PLACE_OUTPUT));
  void *written = NULL;
  ERT_TRY(ert_allocate(p.outputs.count, "marks of written outputs", &written));
  edgert_status status = verify_steps(&p, written);
  ert_free(written);
  if (status != EDGERT_OK) return status;
  ERT_TRY(verify_schedule(&p, ert_items(program, ERT_FIELD_PROGRAM_SPEEDS)));
  return ert_races_verify(&p, pairs);
}

edgert_status ert_programs_verify(const edgert_bundle *bundle) {
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS);
  uint64_t pairs = ERT_PAIRS_PER_BYTE * bundle->metadata.bytes;
  for (uint32_t i = 0; i < programs.count; i++) ERT_TRY(verify_program(bundle, ert_item(programs, i), i, &pairs));
  return EDGERT_OK;
}

edgert_status ert_program_verify(const edgert_bundle *bundle, uint32_t index) {
  if (bundle->whole) return EDGERT_OK;
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS);
  const ert_metadata *metadata = &bundle->metadata;
  const uint64_t at = (uint64_t)((const uint8_t *)programs.data - metadata->data) + 4 * (uint64_t)index;
  ERT_TRY(ert_flatbuffer_verify_program(metadata, at));
  uint64_t pairs = ERT_PAIRS_PER_BYTE * metadata->bytes;
  return verify_program(bundle, ert_item(programs, index), index, &pairs);
}
