/* Opening a session: choose a program, allocate, let every kernel prove its step, start the threads. */
#include <inttypes.h>
#include <stdatomic.h>

#include "backends/cuda/driver.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "platform/code.h"
#include "platform/cpu.h"
#include "session/device.h"
#include "session/session.h"

enum { MOST_THREADS = 1024 };

static edgert_status read_options(const edgert_session_options *given, edgert_session_options *out) {
  *out = (edgert_session_options){.struct_size = sizeof *out};
  if (given) {
    if (given->struct_size != sizeof *out)
      return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "options.struct_size", ert_format("%zu", sizeof *out).s,
                      ert_format("%zu", given->struct_size).s);
    *out = *given;
  }
  if (out->threads == 0) out->threads = ert_cpu_cores();
  if (out->threads > MOST_THREADS)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "options.threads", ert_format("at most %d", MOST_THREADS).s,
                    ert_format("%" PRIu32, out->threads).s);
  if (out->emulate && !ert_driver_named(out->cuda_library))
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "options.emulate",
                    "the emulator as options.cuda_library or in EDGERT_CUDA_LIBRARY", "none");
  return EDGERT_OK;
}

static edgert_status choose_isa(const char *isa, const ert_simd **out) {
  *out = ert_simd_find(isa);
  if (*out) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "options.isa", "an instruction set that edgert_isa gives",
                  ert_format("'%.40s'", isa ? isa : "").s);
}

/* What a session is opened from, and how far that is. */
typedef struct opening {
  edgert_session *session;
  const edgert_bundle *bundle;
  ert_table program;
  const edgert_session_options *options;
  edgert_status status; /* of what the caller does */
  atomic_size_t at;     /* where in the arena the next pages are that nobody has touched */
  atomic_uint prepared; /* steps that may be proven */
  atomic_uint proven;   /* of those, the next one that nobody proves */
  atomic_bool refused;  /* whether one was refused */
} opening;

/* Each worker has a piece of scratch, and memory for the code of its tasks if steps want any, which lies apart: scratch would
 * not be huge pages around it. Where memory cannot be executed, steps do without. */
static edgert_status open_scratch(edgert_session *session, size_t scratch, size_t code) {
  size_t total;
  const uint32_t workers = ert_pool_workers(session->pool);
  const size_t unit = code > 0 ? ERT_CODE_UNIT : ERT_ALIGNMENT;
  if (!ert_align_up(scratch > code ? scratch : code, unit, &scratch) || !ert_multiply(scratch, workers, &total))
    total = SIZE_MAX; /* which the allocation refuses */
  session->scratch_bytes = scratch;
  ERT_TRY(ert_room_take(&session->room, total, "scratch memory", (void **)&session->scratch));
  ptrdiff_t at, shift;
  if (code == 0 || !ert_code_open(session->scratch, scratch, workers, &session->code, &at, &shift)) return EDGERT_OK;
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    session->plan->steps[i].code = at;
    session->plan->steps[i].executable = shift;
  }
  return EDGERT_OK;
}

static edgert_status prepare_steps(opening *o) {
  edgert_session *session = o->session;
  size_t scratch = 0, code = 0;
  uint32_t workers = ert_pool_workers(session->pool);
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    ert_step *step = &session->plan->steps[i];
    bool shared = session->plan->turns[i].core == ERT_ALL_CORES;
    ert_prepare prepare = {.step = step,
                           .room = &session->room,
                           .simd = session->simd,
                           .device = session->device,
                           .made = &session->made,
                           .workers = shared ? workers : 1};
    ERT_TRY(ert_plan_expect_suited(&prepare));
    if (step->kernel->device && session->plan->turns[i].core != 0)
      return ert_reject(&prepare, "core of a step on the device", "0", "%" PRIu32, session->plan->turns[i].core);
    ERT_TRY(step->kernel->prepare(&prepare));
    ERT_TRY(ert_plan_expect_apart(session->plan, o->program, &prepare));
    if (step->scratch_bytes > scratch) scratch = step->scratch_bytes;
    atomic_store(&o->prepared, i + 1);
  }
  const bool sealed = ert_made_seal(&session->made);
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    ert_step *step = &session->plan->steps[i];
    if (!sealed) step->made = NULL;
    if (!step->made && step->code_bytes > code) code = step->code_bytes;
  }
  /* Before scratch, of which opening then needs no page. */
  ERT_TRY(ert_schedule_open(session->plan, workers, &session->room, &session->schedule));
  return open_scratch(session, scratch, code);
}

static edgert_status open_device(edgert_session *session, const edgert_bundle *bundle, ert_table program,
                                 const edgert_session_options *options) {
  if (!ert_program_has_device(program)) return EDGERT_OK;
  session->device_bytes = ert_u64(program, ERT_FIELD_PROGRAM_DEVICE_BYTES, 0);
  ert_device_request request;
  ERT_TRY(ert_device_request_of(bundle, program, options, &request));
  edgert_status status = ert_device_open(&request, &session->device);
  ert_free((void *)(uintptr_t)request.codes);
  return status;
}

/* Neighbouring steps on the device are given to it together, as long as they are of one phase. */
static edgert_status gather_steps(edgert_session *session) {
  const ert_plan *plan = session->plan;
  void *memory;
  ERT_TRY(ert_allocate(plan->n_steps * sizeof(ert_step *), "list of steps", &memory));
  ert_step **list = memory;
  edgert_status status = EDGERT_OK;
  for (uint32_t i = 0, count; i < plan->n_steps && status == EDGERT_OK; i += count ? count : 1) {
    for (count = 0; i + count < plan->n_steps; count++) {
      ert_step *step = &plan->steps[i + count];
      if (!step->kernel->device || plan->turns[i + count].phase != plan->turns[i].phase) break;
      list[count] = step;
    }
    if (count > 0) status = ert_device_gather(session->device, list, count);
  }
  ert_free(memory);
  return status;
}

static edgert_status prepare(opening *o) {
  edgert_session *session = o->session;
  if (!session->device) return prepare_steps(o);
  ERT_TRY(ert_device_begin(session->device, ert_device_stream(session->device)));
  edgert_status status = prepare_steps(o);
  if (status == EDGERT_OK) status = gather_steps(session);
  return ert_device_end(session->device, true, status);
}

/* Everything but the threads, which wait for it, and what prepare has left to be proven. */
static edgert_status open_steps(opening *o) {
  edgert_session *session = o->session;
  ERT_TRY(open_device(session, o->bundle, o->program, o->options));
  uint64_t device_arena = session->device ? ert_device_arena(session->device) : 0;
  ERT_TRY(ert_plan_open(o->bundle, o->program, session->arena, device_arena, &session->room, &session->plan));
  ERT_TRY(prepare(o));
  ert_room_finish(&session->room);
  return EDGERT_OK;
}

static edgert_status prove_step(const edgert_session *session, uint32_t i) {
  return ert_prove(&(ert_prepare){.step = &session->plan->steps[i], .simd = session->simd});
}

/* As many as the worker can get hold of. */
static void prove_some(opening *o) {
  for (uint32_t i = atomic_load(&o->proven); i < atomic_load(&o->prepared);)
    if (atomic_compare_exchange_weak(&o->proven, &i, i + 1)) {
      if (prove_step(o->session, i) != EDGERT_OK) atomic_store(&o->refused, true);
      i = atomic_load(&o->proven);
    }
}

/* The first of the steps that was refused says why; messages are a thread's own. */
static edgert_status proofs(const opening *o) {
  for (uint32_t i = 0; atomic_load(&o->refused) && i < o->session->plan->n_steps; i++)
    ERT_TRY(prove_step(o->session, i));
  return EDGERT_OK;
}

/* The caller opens the steps. Meanwhile, and then with him, the others make the pages of the arena appear; not more than
 * MOST bytes, as nothing proves that the steps use all that the metadata asks for; and prove the steps that he is done with. */
static void open_together(void *context, uint32_t worker) {
  enum { PIECE = 2 << 20, MOST = 64 << 20 };
  opening *o = context;
  if (worker == 0) o->status = open_steps(o);
  const size_t end = o->session->arena_bytes < MOST ? o->session->arena_bytes : MOST;
  for (size_t at; (at = atomic_fetch_add(&o->at, PIECE)) < end;)
    ert_pages_appear(o->session->arena + at, o->session->arena + (end - at < PIECE ? end : at + PIECE));
  prove_some(o);
  ert_pool_barrier(o->session->pool, worker);
  prove_some(o);
}

/* As many workers as the program has cores, or the caller allows threads. */
static edgert_status start_workers(edgert_session *session, ert_table program, uint32_t threads) {
  uint32_t workers = session->cores < threads ? session->cores : threads, cpus[ERT_MOST_CORES];
  bool placed = ert_workers_place(program, workers, "/sys/devices/system/cpu", NULL, cpus);
  return ert_pool_open(workers, placed ? cpus : NULL, &session->pool);
}

static edgert_status build(edgert_session *session, const edgert_bundle *bundle,
                           const edgert_session_options *options) {
  ert_table program;
  ERT_TRY(choose_isa(options->isa, &session->simd));
  ERT_TRY(ert_program_choose(bundle, options, &program));
  session->bundle = bundle;
  session->target = ert_string(program, ERT_FIELD_PROGRAM_TARGET);
  session->cores = ert_u32(program, ERT_FIELD_PROGRAM_CORES, 1);
  session->arena_bytes = ert_u64(program, ERT_FIELD_PROGRAM_ARENA_BYTES, 0);
  ERT_TRY(start_workers(session, program, options->threads));
  ERT_TRY(ert_room_take(&session->room, session->arena_bytes, "arena", (void **)&session->arena));
  opening o = {.session = session, .bundle = bundle, .program = program, .options = options};
  if (ert_pool_workers(session->pool) > 1 && session->arena_bytes > ERT_PAGES_SMALL) {
    ert_pool_run(session->pool, open_together, &o);
    ERT_TRY(o.status);
  } else {
    ERT_TRY(open_steps(&o));
    prove_some(&o);
  }
  return proofs(&o);
}

edgert_status edgert_session_open(const edgert_bundle *bundle, const edgert_session_options *given,
                                  edgert_session **out) {
  if (!out) return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "out", "a pointer", "NULL");
  *out = NULL;
  if (!bundle) return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "bundle", "an open bundle", "NULL");
  edgert_session_options options;
  ERT_TRY(read_options(given, &options));
  void *memory;
  ERT_TRY(ert_allocate(sizeof(edgert_session), "session", &memory));
  edgert_status status = build(memory, bundle, &options);
  if (status != EDGERT_OK) {
    edgert_session_close(memory);
    return status;
  }
  *out = memory;
  return EDGERT_OK;
}

void edgert_session_close(edgert_session *session) {
  if (!session) return;
  ert_pool_close(session->pool);
  ert_free(session->profile);
  ert_device_close(session->device);
  ert_pages_close(session->code);
  ert_pages_close(session->made.pages);
  ert_room_close(&session->room);
  ert_free(session);
}
