/* Changes to programs that stay sound in most: views, cores and phases, tensors moved to the arena. */
#include "change.h"

#include <string.h>

#include "base/kernel.h"

static bool is_view(node *tensor) {
  const node *root = tree_field(tensor, ERT_FIELD_TENSOR_ROOT);
  return root->present && root->scalar != ERT_NO_ROOT;
}

static node *random_program(node *root, dice *d) {
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  return programs->count ? &programs->items[below(d, programs->count)] : NULL;
}

/* Appends a view of the tensor `id` that has `extent` entries from `begin` on along `axis`; its id, -1 if no room. */
static int64_t add_view(node *tensors, uint64_t id, uint32_t axis, uint64_t begin, uint64_t extent, pool *work) {
  static const uint32_t nothing[] = {ERT_FIELD_TENSOR_EXTENT_AXIS, ERT_FIELD_TENSOR_EXTENT_COUNT};
  node *items = pool_take(work, (tensors->count + 1) * sizeof *items);
  if (!items || !tree_copy(work, &items[tensors->count], &tensors->items[id])) return -1;
  memcpy(items, tensors->items, tensors->count * sizeof *items);
  node *view = &items[tensors->count], *start = tree_field(view, ERT_FIELD_TENSOR_BEGIN);
  node *shape = tree_field(view, ERT_FIELD_TENSOR_SHAPE);
  if (!resize(work, start, shape->count)) return -1;
  start->present = true;
  memset(start->bytes, 0, shape->count * sizeof(int64_t));
  set_element(start, axis, begin);
  set_element(shape, axis, extent);
  set_scalar(tree_field(view, ERT_FIELD_TENSOR_ROOT), id);
  for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) tree_field(view, nothing[i])->present = false;
  tensors->items = items;
  return tensors->count++;
}

void cut_operands(node *root, dice *d, pool *work) {
  node *program = random_program(root, d);
  node *steps = program ? tree_field(program, ERT_FIELD_PROGRAM_STEPS) : NULL;
  if (!steps || steps->count == 0) return;
  node *step = &steps->items[below(d, steps->count)], *tensors = tree_field(program, ERT_FIELD_PROGRAM_TENSORS);
  node *operands[] = {tree_field(step, ERT_FIELD_STEP_INPUTS), tree_field(step, ERT_FIELD_STEP_OUTPUTS)};
  uint32_t axis = (uint32_t)below(d, 4);
  uint64_t whole = 0, begin = 0, extent = 0, rarity = 1 + below(d, 2);
  for (uint32_t side = 0; side < 2; side++) {
    for (uint32_t i = 0; i < operands[side]->count; i++) {
      uint64_t id = element(operands[side], i);
      if (id >= tensors->count || is_view(&tensors->items[id])) continue;
      const node *shape = tree_field(&tensors->items[id], ERT_FIELD_TENSOR_SHAPE);
      if (axis >= shape->count || (whole && element(shape, axis) != whole)) continue;
      if (!whole) {
        uint64_t unit = one_in(d, 4) ? 1 : 16;
        whole = element(shape, axis);
        if (tree_field(&tensors->items[id], ERT_FIELD_TENSOR_LAYOUT)->scalar == 0 || axis != 1) unit = 1;
        begin = below(d, whole / unit + 1) * unit;
        extent = one_in(d, 2) ? whole - begin : below(d, (whole - begin) / unit + 1) * unit;
      }
      if (!one_in(d, rarity)) continue;
      int64_t view = add_view(tensors, id, axis, begin, extent, work);
      if (view >= 0) set_element(operands[side], i, (uint64_t)view);
    }
  }
}

void deal_out(node *root, dice *d) {
  node *program = random_program(root, d);
  if (!program) return;
  node *steps = tree_field(program, ERT_FIELD_PROGRAM_STEPS), *speeds = tree_field(program, ERT_FIELD_PROGRAM_SPEEDS);
  uint64_t cores = 1 + below(d, 4), rarity = 1 + below(d, 3), phase = 0;
  set_scalar(tree_field(program, ERT_FIELD_PROGRAM_CORES), cores);
  speeds->count = 0;
  for (uint32_t i = 0; i < steps->count; i++) {
    phase += i > 0 && one_in(d, rarity);
    set_scalar(tree_field(&steps->items[i], ERT_FIELD_STEP_CORE), one_in(d, 3) ? ERT_ALL_CORES : below(d, cores));
    set_scalar(tree_field(&steps->items[i], ERT_FIELD_STEP_PHASE), phase);
  }
}

void follow_roots(node *root, pool *work) {
  static const uint32_t shared[] = {ERT_FIELD_TENSOR_DTYPE, ERT_FIELD_TENSOR_LAYOUT, ERT_FIELD_TENSOR_PLACE,
                                    ERT_FIELD_TENSOR_INDEX, ERT_FIELD_TENSOR_OFFSET};
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  for (uint32_t p = 0; p < programs->count; p++) {
    node *tensors = tree_field(&programs->items[p], ERT_FIELD_PROGRAM_TENSORS);
    for (uint32_t i = 0; i < tensors->count; i++) {
      uint64_t id = tree_field(&tensors->items[i], ERT_FIELD_TENSOR_ROOT)->scalar;
      if (!is_view(&tensors->items[i]) || id >= tensors->count) continue;
      for (size_t k = 0; k < sizeof shared / sizeof shared[0]; k++)
        set_scalar(tree_field(&tensors->items[i], shared[k]), tree_field(&tensors->items[id], shared[k])->scalar);
      (void)tree_copy(work, tree_field(&tensors->items[i], ERT_FIELD_TENSOR_HALO),
                      tree_field(&tensors->items[id], ERT_FIELD_TENSOR_HALO));
    }
  }
}

/* Takes the entry at `position` out of the list of inputs or outputs; those behind it move up. */
static void unbind(node *program, node *tensors, uint64_t place, uint64_t position) {
  node *ids = tree_field(program, place == ERT_PLACE_INPUT ? ERT_FIELD_PROGRAM_INPUTS : ERT_FIELD_PROGRAM_OUTPUTS);
  if (position >= ids->count) return;
  for (uint32_t i = (uint32_t)position; i + 1 < ids->count; i++) set_element(ids, i, element(ids, i + 1));
  ids->count--;
  for (uint32_t i = 0; i < tensors->count; i++) {
    node *index = tree_field(&tensors->items[i], ERT_FIELD_TENSOR_INDEX);
    if (tree_field(&tensors->items[i], ERT_FIELD_TENSOR_PLACE)->scalar == place && index->scalar > position)
      set_scalar(index, index->scalar - 1);
  }
}

void move_to_arena(node *root, dice *d) {
  node *program = random_program(root, d);
  if (!program) return;
  node *tensors = tree_field(program, ERT_FIELD_PROGRAM_TENSORS);
  uint64_t rarity = 1 + below(d, 3);
  for (uint32_t i = 0; i < tensors->count; i++) {
    node *t = &tensors->items[i], *place = tree_field(t, ERT_FIELD_TENSOR_PLACE);
    node *index = tree_field(t, ERT_FIELD_TENSOR_INDEX);
    if (!one_in(d, rarity) || is_view(t) || place->scalar == ERT_PLACE_DEVICE) continue;
    if (place->scalar == ERT_PLACE_INPUT || place->scalar == ERT_PLACE_OUTPUT)
      unbind(program, tensors, place->scalar, index->scalar);
    set_scalar(place, ERT_PLACE_ARENA);
    set_scalar(index, 0);
    set_scalar(tree_field(t, ERT_FIELD_TENSOR_OFFSET), 64 * below(d, one_in(d, 2) ? 2 : 16));
  }
}
