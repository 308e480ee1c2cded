/* Runs a program with every operand of every step in memory of its own. */
#include "guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "session/session.h"
#include "session/view.h"

enum { MOST_OPERANDS = 64, MOST_SCRATCH = 1 << 26, MOST_LAUNCHED = 1 << 16 };

/* Memory that some operands of one step share, as they overlap: exactly their union. The copy is aligned as the original is:
 * it may begin with a view of bytes, and hold larger elements. */
typedef struct island {
  uint8_t *original, *memory, *copy;
  size_t bytes;
} island;

/* A step with operands of its own. */
typedef struct guarded_step {
  ert_tensor tensors[MOST_OPERANDS];
  ert_tensor *pointers[MOST_OPERANDS];
  island islands[MOST_OPERANDS];
  uint32_t n_islands;
} guarded_step;

static void *exactly(size_t bytes) {
  void *memory;
  if (posix_memalign(&memory, ERT_ALIGNMENT, bytes) != 0) abort();
  return memory;
}

static void fill(uint8_t *data, size_t bytes, uint8_t dtype, dice *d) {
  size_t size = ert_dtype_bytes(dtype);
  uint64_t manner = below(d, 6);
  for (size_t at = 0; at + size <= bytes; at += size) {
    uint64_t x = manner == 0 ? roll(d) : manner == 1 ? odd_integer(d, (uint32_t)size) : below(d, 8);
    float value = manner < 3 ? odd_float(d) : (float)below(d, 2001) / 500 - 2;
    if (dtype == EDGERT_F32 && manner > 0) memcpy(&x, &value, sizeof value);
    if (dtype == EDGERT_BOOL && manner > 1) x &= 1;
    if (manner == 5 && dtype != EDGERT_F32) x -= 4;
    memcpy(data + at, &x, size);
  }
}

/* Buffers of the inputs and outputs, as a caller has them; those of outputs hold noise. */
static void bind_all(const ert_plan *plan, const ert_binding *bindings, uint32_t count, dice *d) {
  for (uint32_t i = 0; i < count; i++) {
    const ert_tensor *t = bindings[i].tensor;
    uint8_t *data = exactly(t->bytes);
    fill(data, t->bytes, t->dtype, d);
    for (uint32_t id = bindings[i].first_view; id != ERT_NO_VIEW; id = plan->views[id].next)
      plan->tensors[id].data = data + plan->views[id].at;
  }
}

static void free_all(const ert_binding *bindings, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) free(bindings[i].tensor->data);
}

/* How a tensor's elements lie: in runs without gaps, one for each index that is a multiple of `step` in each dimension. */
typedef struct runs {
  int64_t step[ERT_MAX_RANK];
  size_t bytes; /* of a run */
} runs;

static runs runs_of(const ert_tensor *t) {
  runs r = {.bytes = ert_dtype_bytes(t->dtype) * (t->layout == ERT_LAYOUT_PLANAR ? 1 : 16)};
  for (uint32_t i = 0; i < t->rank; i++) {
    bool lanes = t->layout != ERT_LAYOUT_PLANAR && i == (t->layout == ERT_LAYOUT_DEPTH16 || t->rank == 1 ? 0 : 1);
    bool inside = t->layout == ERT_LAYOUT_DEPTH16 ? i > 0 : t->layout == ERT_LAYOUT_WEIGHT16 && i > 1;
    r.step[i] = inside ? t->shape[i] : lanes ? 16 : 1;
    if (inside) r.bytes *= (size_t)t->shape[i];
  }
  return r;
}

/* Bytes from a tensor's first element to the end of its last, the gaps of a view included. */
static size_t reach(const ert_tensor *t) {
  if (t->compact) return t->bytes;
  runs r = runs_of(t);
  int64_t last[ERT_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++) last[i] = (t->shape[i] - 1) / r.step[i] * r.step[i];
  return ert_view_at(t, last) + r.bytes;
}

/* Copies a tensor's elements to where `data` is its first, gaps left alone. */
static void copy_elements(const ert_tensor *t, uint8_t *data) {
  const uint8_t *from = t->data;
  if (t->compact) {
    if (t->bytes) memcpy(data, from, t->bytes);
    return;
  }
  runs r = runs_of(t);
  int64_t index[ERT_MAX_RANK] = {0};
  for (uint32_t i = 0; i < t->rank;) {
    size_t at = ert_view_at(t, index);
    memcpy(data + at, from + at, r.bytes);
    for (i = 0; i < t->rank && (index[i] += r.step[i]) >= t->shape[i]; i++) index[i] = 0;
  }
}

static bool overlap(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

/* Adds an operand: it joins all islands that it overlaps into one. */
static void settle(guarded_step *g, const ert_tensor *t) {
  island all = {.original = t->data, .bytes = reach(t)};
  for (uint32_t i = 0; i < g->n_islands;) {
    island *other = &g->islands[i];
    if (!overlap(other->original, other->bytes, all.original, all.bytes)) {
      i++;
      continue;
    }
    uint8_t *end = all.original + all.bytes, *other_end = other->original + other->bytes;
    if (other->original < all.original) all.original = other->original;
    all.bytes = (size_t)((other_end > end ? other_end : end) - all.original);
    *other = g->islands[--g->n_islands];
    i = 0; /* the larger one may reach others */
  }
  g->islands[g->n_islands++] = all;
}

/* Gives the step operands in memory of their own; false if it has too many. */
static bool isolate(guarded_step *g, ert_step *step) {
  if (step->n_in + (uint64_t)step->n_out > MOST_OPERANDS) return false;
  for (uint32_t i = 0; i < step->n_in; i++)
    if (step->in[i]) settle(g, step->in[i]);
  for (uint32_t i = 0; i < step->n_out; i++) settle(g, step->out[i]);
  for (uint32_t i = 0; i < g->n_islands; i++) {
    island *at = &g->islands[i];
    const size_t shift = (uintptr_t)at->original % sizeof(int64_t);
    at->memory = exactly(shift + at->bytes);
    at->copy = at->memory + shift;
    if (at->bytes) memcpy(at->copy, at->original, at->bytes); /* prepare reads constants */
  }
  for (uint32_t k = 0; k < step->n_in + step->n_out; k++) {
    const ert_tensor *t = k < step->n_in ? step->in[k] : step->out[k - step->n_in];
    if (!t) continue;
    g->tensors[k] = *t;
    g->pointers[k] = &g->tensors[k];
    for (uint32_t i = 0; i < g->n_islands; i++) {
      island *at = &g->islands[i];
      bool inside =
          t->bytes ? overlap(at->original, at->bytes, t->data, reach(t)) : at->bytes == 0 && at->original == t->data;
      if (inside) g->tensors[k].data = at->copy + ((uint8_t *)t->data - at->original);
    }
  }
  step->in = (const ert_tensor *const *)g->pointers;
  step->out = g->pointers + step->n_in;
  return true;
}

/* Isolates and prepares a step as a session does. */
static outcome prepare(const ert_plan *plan, ert_table program, guarded_step *g, ert_step *step, ert_room *room,
                       const ert_simd *simd, uint32_t workers) {
  ert_step original = *step;
  ert_prepare p = {.step = step, .room = room, .simd = simd, .workers = workers};
  if (ert_plan_expect_suited(&p) != EDGERT_OK || step->kernel->device) return OUTCOME_REFUSED;
  if (!isolate(g, step)) return OUTCOME_LARGE;
  if (step->kernel->prepare(&p) != EDGERT_OK || ert_prove(&p) != EDGERT_OK) return OUTCOME_REFUSED;
  p.step = &original;
  if (ert_plan_expect_apart(plan, program, &p) != EDGERT_OK) return OUTCOME_REFUSED;
  if (step->tasks < 0) abort();
  return step->scratch_bytes > MOST_SCRATCH ? OUTCOME_LARGE : OUTCOME_RAN;
}

/* The tasks of a step, dealt as the library deals them, the last worker first. */
static void deal(const ert_step *step, uint32_t workers) {
  if (step->tasks == 0) return;
  if (step->tasks == 1) workers = 1;
  for (uint32_t worker = workers; worker-- > 0;) {
    int64_t each = step->tasks / workers, more = step->tasks % workers;
    int64_t begin = each * worker + (worker < more ? worker : more), end = begin + each + (worker < more);
    uint8_t *scratch = exactly(step->scratch_bytes);
    memset(scratch, 0xA5, step->scratch_bytes);
    if (begin < end) step->kernel->run(step, begin, end, scratch);
    free(scratch);
  }
}

/* Runs the step on copies, and takes over its outputs: nothing else may have changed. */
static void run_isolated(guarded_step *g, const ert_step *step, uint32_t workers) {
  for (uint32_t i = 0; i < g->n_islands; i++) {
    const island *at = &g->islands[i];
    if (at->bytes) memcpy(at->copy, at->original, at->bytes);
  }
  deal(step, workers);
  for (uint32_t i = 0; i < g->n_islands; i++) {
    const island *at = &g->islands[i];
    for (uint32_t k = 0; k < step->n_out; k++) {
      const ert_tensor *t = step->out[k];
      if (overlap(at->copy, at->bytes, t->data, t->bytes))
        copy_elements(t, at->original + ((uint8_t *)t->data - at->copy));
    }
    if (at->bytes && memcmp(at->original, at->copy, at->bytes) != 0) {
      fprintf(stderr, "step %u, %s, writes what it may only read\n", step->index, step->kernel->name);
      abort();
    }
  }
}

static bool is_small(const ert_plan *plan) {
  size_t sum = 0;
  for (uint32_t i = 0; i < plan->n_tensors; i++)
    if (!ert_add(sum, plan->tensors[i].bytes, &sum)) return false;
  return sum <= MOST_RUN_BYTES;
}

static outcome run_plan(ert_plan *plan, ert_table program, guarded_step *guards, ert_room *room, const ert_simd *simd,
                        uint32_t workers, void (*ran)(const char *)) {
  uint32_t cores = ert_u32(program, ERT_FIELD_PROGRAM_CORES, 1), most = workers < cores ? workers : cores;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    uint32_t own = plan->turns[i].core == ERT_ALL_CORES ? most : 1;
    outcome found = prepare(plan, program, &guards[i], &plan->steps[i], room, simd, own);
    if (found != OUTCOME_RAN) return found;
  }
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    run_isolated(&guards[i], &plan->steps[i], plan->turns[i].core == ERT_ALL_CORES ? most : 1);
    ran(plan->steps[i].kernel->name);
  }
  return OUTCOME_RAN;
}

outcome run_guarded(const edgert_bundle *bundle, const char *isa, uint32_t workers, dice *d,
                    void (*ran)(const char *)) {
  ert_table program;
  ert_plan *plan;
  ert_room room = {.count = 0};
  edgert_session_options options = {.struct_size = sizeof options, .threads = workers};
  if (ert_program_choose(bundle, &options, &program) != EDGERT_OK) return OUTCOME_REFUSED;
  uint64_t arena_bytes = ert_u64(program, ERT_FIELD_PROGRAM_ARENA_BYTES, 0);
  if (arena_bytes > MOST_RUN_BYTES) return OUTCOME_LARGE;
  uint8_t *arena = exactly(arena_bytes);
  fill(arena, arena_bytes, (uint8_t)(1 + below(d, ERT_DTYPE_COUNT - 1)), d);
  outcome found = OUTCOME_REFUSED;
  if (ert_plan_open(bundle, program, arena, 0, &room, &plan) == EDGERT_OK) {
    guarded_step *guards = calloc(plan->n_steps ? plan->n_steps : 1, sizeof *guards);
    found = OUTCOME_LARGE;
    if (guards && is_small(plan)) {
      bind_all(plan, plan->inputs, plan->n_inputs, d);
      bind_all(plan, plan->outputs, plan->n_outputs, d);
      found = run_plan(plan, program, guards, &room, ert_simd_find(isa), workers, ran);
      for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t k = 0; k < guards[i].n_islands; k++) free(guards[i].islands[k].memory);
      free_all(plan->inputs, plan->n_inputs);
      free_all(plan->outputs, plan->n_outputs);
    }
    free(guards);
  }
  ert_room_close(&room);
  free(arena);
  return found;
}

/* ---- through the public interface ---- */

/* Reads all golden samples. */
static void read_goldens(const edgert_session *s) {
  edgert_golden_info info;
  volatile uint8_t sum = 0;
  for (uint32_t sample = 0; sample < 4; sample++) {
    if (edgert_session_golden(s, sample, &info) != EDGERT_OK) continue;
    uint32_t inputs = edgert_session_input_count(s), count = inputs + edgert_session_output_count(s);
    for (uint32_t i = 0; i < count; i++) {
      const void *data;
      size_t bytes;
      edgert_status status = i < inputs ? edgert_session_golden_input(s, sample, i, &data, &bytes)
                                        : edgert_session_golden_output(s, sample, i - inputs, &data, &bytes);
      for (size_t at = 0; status == EDGERT_OK && data && at < bytes; at++) sum ^= ((const uint8_t *)data)[at];
    }
  }
}

static bool describe(const edgert_session *s, uint32_t i, uint32_t inputs, edgert_tensor_info *info) {
  return (i < inputs ? edgert_session_input(s, i, info) : edgert_session_output(s, i - inputs, info)) == EDGERT_OK;
}

/* Threads of a device that a step starts. */
static uint64_t launched(const ert_step *step) {
  const ert_prepare p = {.step = (ert_step *)(uintptr_t)step};
  const ert_attribute *grid = ert_attribute_find(&p, "grid"), *threads = ert_attribute_find(&p, "threads");
  uint64_t sum = 0;
  for (uint32_t i = 0; step->kernel->device && i < threads->n_ints; i++) {
    uint64_t product = (uint64_t)threads->ints[i];
    for (uint32_t axis = 0; axis < 3 && product <= MOST_LAUNCHED; axis++) product *= (uint64_t)grid->ints[3 * i + axis];
    sum += product;
  }
  return sum;
}

static bool is_short(const ert_plan *plan) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) sum += launched(&plan->steps[i]);
  return sum <= MOST_LAUNCHED;
}

outcome run_session(const edgert_bundle *bundle, const char *isa, uint32_t threads, const char *emulator, dice *d,
                    void (*ran)(const char *)) {
  const bool emulated = emulator != NULL;
  edgert_session_options options = {.struct_size = sizeof options,
                                    .threads = threads,
                                    .isa = isa,
                                    .allow_native = emulated,
                                    .emulate = emulated,
                                    .cuda_library = emulator,
                                    .code_cache = ""};
  edgert_session *session;
  if (edgert_session_open(bundle, &options, &session) != EDGERT_OK) return OUTCOME_REFUSED;
  uint8_t *buffers[MOST_OPERANDS] = {NULL};
  uint32_t inputs = edgert_session_input_count(session), count = inputs + edgert_session_output_count(session);
  bool small = is_small(session->plan) && is_short(session->plan) && count <= MOST_OPERANDS;
  outcome found = small ? OUTCOME_RAN : OUTCOME_LARGE;
  for (uint32_t i = 0; found == OUTCOME_RAN && i < count; i++) {
    edgert_tensor_info info;
    if (!describe(session, i, inputs, &info)) abort();
    size_t size = ert_dtype_bytes((uint8_t)info.dtype);
    buffers[i] = exactly(info.bytes + size);
    uint8_t *data = buffers[i] + size; /* aligned to the element only */
    fill(data, info.bytes, (uint8_t)info.dtype, d);
    if ((i < inputs ? edgert_session_bind_input(session, i, data, info.bytes)
                    : edgert_session_bind_output(session, i - inputs, data, info.bytes)) != EDGERT_OK)
      abort();
  }
  if (found == OUTCOME_RAN) {
    edgert_status status = edgert_session_run(session);
    if (status != EDGERT_OK && !emulated) abort();
    if (status != EDGERT_OK) found = OUTCOME_REFUSED;
    for (uint32_t i = 0; i < session->plan->n_steps && status == EDGERT_OK; i++)
      ran(session->plan->steps[i].kernel->name);
    for (uint32_t i = inputs; status == EDGERT_OK && i < count; i++) {
      edgert_tensor_info info;
      int64_t shape[EDGERT_MAX_RANK];
      if (!describe(session, i, inputs, &info)) abort();
      if (edgert_session_output_shape(session, i - inputs, shape) != EDGERT_OK) abort();
      for (uint32_t axis = 0; axis < info.rank; axis++)
        if (shape[axis] < 0 || shape[axis] > info.shape[axis]) abort();
    }
  }
  read_goldens(session);
  for (uint32_t i = 0; i < count && i < MOST_OPERANDS; i++) free(buffers[i]);
  edgert_session_close(session);
  return found;
}
