/* Building the plan: sizes first, then everything in one block of memory. */
#include "session/plan.h"

#include <string.h>

#include "base/dtype.h"
#include "bundle/region.h"
#include "session/view.h"

/* How many of everything; verification has bounded the sum by a small multiple of the metadata's size. */
typedef struct amounts {
  size_t operands, attributes;
} amounts;

/* The lists that steps point into; each is used up from its beginning. */
typedef struct lists {
  ert_tensor **operands;
  ert_attribute *attributes;
} lists;

static amounts count(ert_vector steps) {
  amounts n = {0, 0};
  for (uint32_t i = 0; i < steps.count; i++) {
    ert_table step = ert_item(steps, i);
    n.operands += ert_items(step, ERT_FIELD_STEP_INPUTS).count + (size_t)ert_items(step, ERT_FIELD_STEP_OUTPUTS).count;
    n.attributes += ert_items(step, ERT_FIELD_STEP_ATTRIBUTES).count;
  }
  return n;
}

/* The position of `n` objects of `size` bytes, 16-byte aligned, behind all that were reserved before. */
static size_t reserve(size_t *end, size_t n, size_t size) {
  size_t at = *end;
  *end += (n * size + 15) / 16 * 16;
  return at;
}

static void fill_tensor(ert_plan *plan, uint32_t id, const edgert_bundle *bundle, ert_vector tables, uint8_t *arena,
                        uint64_t device_arena) {
  ert_tensor *t = &plan->tensors[id];
  ert_region region = ert_region_of(tables, id);
  t->name = ert_string(ert_item(tables, id), ERT_FIELD_TENSOR_NAME);
  t->dtype = region.dtype;
  t->layout = region.layout;
  t->rank = region.rank;
  memcpy(t->shape, region.shape, t->rank * sizeof *t->shape);
  memcpy(t->whole, region.whole, t->rank * sizeof *t->whole);
  if (region.halo) memcpy(t->halo, region.halo, sizeof t->halo);
  t->elements = region.elements;
  t->bytes = region.bytes;
  t->compact = true;
  size_t at = 0;
  if (!ert_region_whole(&region)) {
    (void)ert_tensor_size(t->dtype, t->layout, t->rank, t->shape, region.halo, &t->elements,
                          &t->bytes); /* succeeded in program.c */
    t->compact = ert_view_compact(t);
    at = ert_view_at(t, region.begin);
  }
  plan->views[id].at = at;
  t->device = region.place == ERT_PLACE_DEVICE;
  if (region.place == ERT_PLACE_ARENA) {
    t->data = arena + region.offset + at;
  } else if (t->device) {
    t->data = (void *)(uintptr_t)(device_arena + region.offset + at);
  } else if (region.place == ERT_PLACE_SEGMENT) {
    ert_vector segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS);
    const uint8_t *segment = ert_segment_data(bundle, ert_item(segments, region.index));
    t->data = (void *)(uintptr_t)(segment + region.offset + at); /* no step writes a constant, as verified */
    t->constant = true;
  }
}

static void fill_step(ert_plan *plan, uint32_t index, ert_table table, lists *free) {
  plan->turns[index] = (ert_turn){ert_u8(table, ERT_FIELD_STEP_CORE, 0), ert_u32(table, ERT_FIELD_STEP_PHASE, 0)};
  ert_vector inputs = ert_items(table, ERT_FIELD_STEP_INPUTS), outputs = ert_items(table, ERT_FIELD_STEP_OUTPUTS);
  ert_vector attributes = ert_items(table, ERT_FIELD_STEP_ATTRIBUTES), nodes = ert_items(table, ERT_FIELD_STEP_NODES);
  const int32_t *in = inputs.data, *out = outputs.data;
  plan->steps[index] = (ert_step){
      .kernel = ert_kernel_find(ert_string(table, ERT_FIELD_STEP_KERNEL)),
      .in = (const ert_tensor *const *)free->operands,
      .out = free->operands + inputs.count,
      .attributes = free->attributes,
      .n_in = inputs.count,
      .n_out = outputs.count,
      .n_attributes = attributes.count,
      .index = index,
      .node = nodes.count > 0 ? ert_text_item(nodes, 0) : "",
  };
  for (uint32_t i = 0; i < inputs.count; i++) *free->operands++ = in[i] < 0 ? NULL : &plan->tensors[in[i]];
  for (uint32_t i = 0; i < outputs.count; i++) *free->operands++ = &plan->tensors[out[i]];
  for (uint32_t i = 0; i < attributes.count; i++) {
    ert_table attribute = ert_item(attributes, i);
    ert_vector ints = ert_items(attribute, ERT_FIELD_ATTRIBUTE_INTS);
    ert_vector floats = ert_items(attribute, ERT_FIELD_ATTRIBUTE_FLOATS);
    *free->attributes++ = (ert_attribute){
        .name = ert_string(attribute, ERT_FIELD_ATTRIBUTE_NAME),
        .ints = ints.data,
        .floats = floats.data,
        .text = ert_string(attribute, ERT_FIELD_ATTRIBUTE_TEXT),
        .n_ints = ints.count,
        .n_floats = floats.count,
    };
  }
}

static void fill_bindings(const ert_plan *plan, ert_binding *bindings, ert_vector ids, ert_vector tables) {
  for (uint32_t i = 0; i < ids.count; i++) {
    uint32_t id = ((const uint32_t *)ids.data)[i];
    ert_table table = ert_item(tables, id);
    int8_t axis = (int8_t)ert_u8(table, ERT_FIELD_TENSOR_EXTENT_AXIS, UINT8_MAX);
    bindings[i] = (ert_binding){.tensor = &plan->tensors[id], .first_view = ERT_NO_VIEW};
    if (axis < 0) continue;
    bindings[i].axis = (uint32_t)axis;
    bindings[i].count = &plan->tensors[ert_u32(table, ERT_FIELD_TENSOR_EXTENT_COUNT, 0)];
  }
}

static void chain_views(ert_plan *plan, ert_vector tables) {
  for (uint32_t id = 0; id < plan->n_tensors; id++) {
    ert_table table = ert_item(tables, id);
    uint8_t place = ert_u8(table, ERT_FIELD_TENSOR_PLACE, 0);
    plan->views[id].next = ERT_NO_VIEW;
    if (place != ERT_PLACE_INPUT && place != ERT_PLACE_OUTPUT) continue;
    ert_binding *binding = place == ERT_PLACE_INPUT ? plan->inputs : plan->outputs;
    binding += ert_u32(table, ERT_FIELD_TENSOR_INDEX, 0);
    plan->views[id].next = binding->first_view;
    binding->first_view = id;
  }
}

edgert_status ert_plan_open(const edgert_bundle *bundle, ert_table program, uint8_t *arena, uint64_t device_arena,
                            ert_room *room, ert_plan **out) {
  *out = NULL;
  ert_vector tensors = ert_items(program, ERT_FIELD_PROGRAM_TENSORS),
             steps = ert_items(program, ERT_FIELD_PROGRAM_STEPS);
  ert_vector inputs = ert_items(program, ERT_FIELD_PROGRAM_INPUTS);
  ert_vector outputs = ert_items(program, ERT_FIELD_PROGRAM_OUTPUTS);
  amounts n = count(steps);
  size_t bytes = 0;
  reserve(&bytes, 1, sizeof(ert_plan));
  size_t tensors_at = reserve(&bytes, tensors.count, sizeof(ert_tensor));
  size_t steps_at = reserve(&bytes, steps.count, sizeof(ert_step));
  size_t inputs_at = reserve(&bytes, inputs.count, sizeof(ert_binding));
  size_t outputs_at = reserve(&bytes, outputs.count, sizeof(ert_binding));
  size_t views_at = reserve(&bytes, tensors.count, sizeof(ert_view));
  size_t turns_at = reserve(&bytes, steps.count, sizeof(ert_turn));
  size_t operands_at = reserve(&bytes, n.operands, sizeof(ert_tensor *));
  size_t attributes_at = reserve(&bytes, n.attributes, sizeof(ert_attribute));
  void *memory;
  ERT_TRY(ert_room_take(room, bytes, "plan of a program", &memory));
  char *base = memory;
  ert_plan *plan = memory;
  *plan = (ert_plan){
      .tensors = (void *)(base + tensors_at),
      .steps = (void *)(base + steps_at),
      .inputs = (void *)(base + inputs_at),
      .outputs = (void *)(base + outputs_at),
      .views = (void *)(base + views_at),
      .turns = (void *)(base + turns_at),
      .n_tensors = tensors.count,
      .n_steps = steps.count,
      .n_inputs = inputs.count,
      .n_outputs = outputs.count,
  };
  lists free = {(void *)(base + operands_at), (void *)(base + attributes_at)};
  for (uint32_t i = 0; i < tensors.count; i++) fill_tensor(plan, i, bundle, tensors, arena, device_arena);
  for (uint32_t i = 0; i < steps.count; i++) fill_step(plan, i, ert_item(steps, i), &free);
  fill_bindings(plan, plan->inputs, inputs, tensors);
  fill_bindings(plan, plan->outputs, outputs, tensors);
  chain_views(plan, tensors);
  *out = plan;
  return EDGERT_OK;
}

/* Whether the elements of two operands in the same memory, the regions a and b, lie in the same bytes in the same order. */
static bool coincide(const ert_plan *plan, const ert_tensor *s, const ert_region *a, const ert_tensor *t,
                     const ert_region *b) {
  if (s->dtype != t->dtype || s->layout != t->layout) return false;
  if (a->offset + plan->views[s - plan->tensors].at != b->offset + plan->views[t - plan->tensors].at) return false;
  if (memcmp(s->halo, t->halo, sizeof s->halo) != 0) return false;
  if (s->compact && t->compact) return s->bytes == t->bytes;
  return memcmp(s->whole, t->whole, sizeof s->whole) == 0 && memcmp(s->shape, t->shape, sizeof s->shape) == 0;
}

/* Whether two operands lie in memory already, each without gaps, and have no byte in common. */
static bool lie_apart(const ert_tensor *a, const ert_tensor *b) {
  if (!a->data || !b->data || !a->compact || !b->compact) return false;
  const uintptr_t first = (uintptr_t)a->data, second = (uintptr_t)b->data;
  return first + a->bytes <= second || second + b->bytes <= first;
}

edgert_status ert_plan_expect_apart(const ert_plan *plan, ert_table program, const ert_prepare *p) {
  const ert_step *step = p->step;
  ert_vector tensors = ert_items(program, ERT_FIELD_PROGRAM_TENSORS);
  for (uint32_t o = 0; o < step->n_out; o++) {
    const ert_tensor *y = step->out[o];
    for (uint32_t i = 0; i < step->n_in + o; i++) {
      const ert_tensor *x = i < step->n_in ? step->in[i] : step->out[i - step->n_in];
      if (!x || x->constant || lie_apart(x, y)) continue; /* constants are those of segments, which no step writes */
      ert_region written = ert_region_of(tensors, (uint32_t)(y - plan->tensors));
      ert_region other = ert_region_of(tensors, (uint32_t)(x - plan->tensors));
      if (ert_regions_apart(&written, &other)) continue;
      bool allowed = o == 0 && i < 32 && (p->in_place >> i & 1);
      if (allowed && coincide(plan, y, &written, x, &other)) continue;
      return ert_reject(p, "memory of an output", "apart from that of the other operands", "'%.80s' over '%.80s'",
                        y->name, x->name);
    }
  }
  return EDGERT_OK;
}

static edgert_status expect_type(const ert_prepare *p, const ert_tensor *t) {
  if (!t || p->step->kernel->reduced || !ert_dtype_reduced(t->dtype)) return EDGERT_OK;
  return ert_reject(p, "type of an operand", "another one for this kernel", "%s", ert_dtype_name(t->dtype));
}

static edgert_status expect_place(const ert_prepare *p, const ert_tensor *t) {
  if (!t || p->step->kernel->device || t->layout != ERT_LAYOUT_PLANES) return EDGERT_OK;
  return ert_reject(p, "memory of an operand", "the processor's: the kernel does not run on a device",
                    "'%.80s' on the device", t->name);
}

static edgert_status expect_compact_operand(const ert_prepare *p, const ert_tensor *t) {
  if (!t || t->compact) return EDGERT_OK;
  return ert_reject(p, "memory of an operand", "no gaps: the kernel takes no strided views", "the view '%.80s'",
                    t->name);
}

edgert_status ert_plan_expect_suited(const ert_prepare *p) {
  const ert_step *step = p->step;
  for (uint32_t i = 0; i < step->n_in; i++) ERT_TRY(expect_place(p, step->in[i]));
  for (uint32_t i = 0; i < step->n_out; i++) ERT_TRY(expect_place(p, step->out[i]));
  for (uint32_t i = 0; i < step->n_in; i++) ERT_TRY(expect_type(p, step->in[i])); /* outputs are no constants */
  if (step->kernel->views) return EDGERT_OK;
  for (uint32_t i = 0; i < step->n_in; i++) ERT_TRY(expect_compact_operand(p, step->in[i]));
  for (uint32_t i = 0; i < step->n_out; i++) ERT_TRY(expect_compact_operand(p, step->out[i]));
  return EDGERT_OK;
}
