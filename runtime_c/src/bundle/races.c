/* Races: within a phase, no core touches what another one writes. */
#include <inttypes.h>

#include "base/alloc.h"
#include "bundle/program.h"
#include "bundle/region.h"

/* A step's operand outside of the constants. */
typedef struct access {
  uint32_t tensor, step;
  uint8_t core;
  bool writes;
} access;

/* The steps [first, end) of one phase. */
typedef struct phase {
  uint32_t first, end;
  bool several; /* more than one core works in it */
} phase;

static uint8_t core_of(const ert_program *p, uint32_t step) {
  return ert_u8(ert_item(p->steps, step), ERT_FIELD_STEP_CORE, 0);
}

static uint32_t number_of(const ert_program *p, uint32_t step) {
  return ert_u32(ert_item(p->steps, step), ERT_FIELD_STEP_PHASE, 0);
}

/* The phase that begins with a step. A single step that all cores share does not count as several cores. */
static phase phase_from(const ert_program *p, uint32_t first) {
  phase found = {first, first + 1, false};
  uint8_t core = core_of(p, first);
  for (; found.end < p->steps.count && number_of(p, found.end) == number_of(p, first); found.end++)
    found.several |= core == ERT_ALL_CORES || core_of(p, found.end) != core;
  return found;
}

static size_t operands(const ert_program *p, phase in) {
  size_t n = 0;
  for (uint32_t i = in.first; i < in.end; i++) {
    ert_table step = ert_item(p->steps, i);
    n += ert_items(step, ERT_FIELD_STEP_INPUTS).count + (size_t)ert_items(step, ERT_FIELD_STEP_OUTPUTS).count;
  }
  return n;
}

/* Whether a tensor is a constant, else its region is among the regions from now on. */
static bool constant(const ert_program *p, ert_region *regions, uint32_t id) {
  if (ert_u8(ert_item(p->tensors, id), ERT_FIELD_TENSOR_PLACE, 0) == ERT_PLACE_SEGMENT) return true;
  if (!regions[id].whole) regions[id] = ert_region_of(p->tensors, id);
  return false;
}

/* Appends a step's inputs or outputs to the accesses; their new number. */
static size_t add_operands(const ert_program *p, ert_region *regions, uint32_t step, bool writes, access *to,
                           size_t n) {
  ert_vector ids = ert_items(ert_item(p->steps, step), writes ? ERT_FIELD_STEP_OUTPUTS : ERT_FIELD_STEP_INPUTS);
  for (uint32_t i = 0; i < ids.count; i++) {
    int32_t id = ((const int32_t *)ids.data)[i];
    if (id < 0 || constant(p, regions, (uint32_t)id) || regions[id].empty) continue;
    to[n++] = (access){(uint32_t)id, step, core_of(p, step), writes};
  }
  return n;
}

static bool lies_before(const ert_region *a, const ert_region *b) {
  if (a->place != b->place) return a->place < b->place;
  if (a->index != b->index) return a->index < b->index;
  return a->offset < b->offset;
}

/* Lets the access at `at` of a heap of `n` sink below those that lie behind it. */
static void sink(const ert_region *regions, access *heap, size_t at, size_t n) {
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && lies_before(&regions[heap[child].tensor], &regions[heap[child + 1].tensor])) child++;
    if (!lies_before(&regions[heap[at].tensor], &regions[heap[child].tensor])) return;
    access moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
  }
}

/* Sorts by place; neither recursive nor slow on any input. */
static void heap_sort(const ert_region *regions, access *a, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sink(regions, a, i, n);
  for (size_t end = n; end-- > 1;) {
    access last = a[end];
    a[end] = a[0];
    a[0] = last;
    sink(regions, a, 0, end);
  }
}

/* Whether the bytes of b's root, which begins no earlier, begin within those of a's. */
static bool reaches(const ert_region *a, const ert_region *b) {
  return a->place == b->place && a->index == b->index && b->offset < a->offset + a->bytes;
}

static edgert_status verify_pair(const ert_program *p, const ert_region *regions, access a, access b) {
  bool same_core = a.core == b.core && a.core != ERT_ALL_CORES;
  if (a.step == b.step || same_core || !(a.writes || b.writes)) return EDGERT_OK;
  if (ert_regions_apart(&regions[a.tensor], &regions[b.tensor])) return EDGERT_OK;
  access first = a.step < b.step ? a : b, second = a.step < b.step ? b : a;
  ert_text what = ert_format("'%.60s' on core %u",
                             ert_string(ert_item(p->tensors, second.tensor), ERT_FIELD_TENSOR_NAME), second.core);
  ert_text got =
      ert_format("that of '%.60s', step %" PRIu32 " on core %u",
                 ert_string(ert_item(p->tensors, first.tensor), ERT_FIELD_TENSOR_NAME), first.step, first.core);
  return ert_fail_step(p, second.step, what.s, "memory apart from other cores' in its phase", got.s);
}

static edgert_status verify_phase(const ert_program *p, ert_region *regions, phase in, access *accesses,
                                  uint64_t *pairs) {
  size_t n = 0;
  for (uint32_t i = in.first; i < in.end; i++) {
    n = add_operands(p, regions, i, false, accesses, n);
    n = add_operands(p, regions, i, true, accesses, n);
  }
  heap_sort(regions, accesses, n);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = i + 1; k < n && reaches(&regions[accesses[i].tensor], &regions[accesses[k].tensor]); k++) {
      if (*pairs == 0)
        return ert_fail_step(p, in.first, "operands of its phase in the same memory",
                             ert_format("at most %d pairs for each byte of the metadata", ERT_PAIRS_PER_BYTE).s,
                             "more");
      --*pairs;
      ERT_TRY(verify_pair(p, regions, accesses[i], accesses[k]));
    }
  }
  return EDGERT_OK;
}

edgert_status ert_races_verify(const ert_program *p, uint64_t *pairs) {
  size_t most = 0;
  phase in;
  for (uint32_t i = 0; i < p->steps.count; i = in.end) {
    in = phase_from(p, i);
    if (in.several && operands(p, in) > most) most = operands(p, in);
  }
  if (most == 0) return EDGERT_OK;
  void *regions, *accesses = NULL;
  ERT_TRY(ert_allocate(p->tensors.count * sizeof(ert_region), "regions of tensors", &regions));
  edgert_status status = ert_allocate(most * sizeof(access), "operands of a phase", &accesses);
  for (uint32_t i = 0; status == EDGERT_OK && i < p->steps.count; i = in.end) {
    in = phase_from(p, i);
    if (in.several) status = verify_phase(p, regions, in, accesses, pairs);
  }
  ert_free(accesses);
  ert_free(regions);
  return status;
}
