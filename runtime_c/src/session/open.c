/* Opening a session: choose a program, allocate, let every kernel prove its step, start the threads. */
#include <inttypes.h>
#include <stdatomic.h>

#include "backends/cuda/driver.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "platform/code.h"
#include "platform/cpu.h"
#include "platform/thread.h"
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
  ert_gate planned;     /* opens once there is a plan, or will be none */
  atomic_size_t arena;  /* where in it the next pages are that nobody has touched, */
  atomic_size_t made;   /* and where they are in that */
  atomic_uint prepared; /* the next step that nobody prepares, */
  atomic_uint proven;   /* and the next one that nobody proves */
  atomic_bool refused;  /* whether anything was */
} opening;

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

static edgert_status open_arena(edgert_session *session) {
  return ert_room_take(&session->room, session->arena_bytes, "arena", (void **)&session->arena);
}

static edgert_status open_plan(opening *o) {
  edgert_session *session = o->session;
  const uint64_t device_arena = session->device ? ert_device_arena(session->device) : 0;
  return ert_plan_open(o->bundle, o->program, session->arena, device_arena, &session->room, &session->plan);
}

static edgert_status prepare_step(opening *o, uint32_t i) {
  edgert_session *session = o->session;
  const ert_turn *turn = &session->plan->turns[i];
  ert_step *step = &session->plan->steps[i];
  ert_prepare prepare = {.step = step,
                         .room = &session->room,
                         .simd = session->simd,
                         .device = session->device,
                         .workers = turn->core == ERT_ALL_CORES ? ert_pool_workers(session->pool) : 1};
  ERT_TRY(ert_plan_expect_suited(&prepare));
  if (step->kernel->device && turn->core != 0)
    return ert_reject(&prepare, "core of a step on the device", "0", "%" PRIu32, turn->core);
  ERT_TRY(step->kernel->prepare(&prepare));
  return ert_plan_expect_apart(session->plan, o->program, &prepare);
}

/* Memory for instructions that are made once, for those of the prepared steps that want some and come first. */
static void open_made(edgert_session *session) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    ert_step *step = &session->plan->steps[i];
    if (step->made_bytes > ERT_MADE_MOST - bytes) step->made_bytes = 0;
    bytes += step->made_bytes;
  }
  if (bytes == 0 || !ert_made_open(bytes, &session->made)) return;
  uint8_t *made = session->made.data;
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    ert_step *step = &session->plan->steps[i];
    step->made = step->made_bytes > 0 ? made : NULL;
    made += step->made_bytes;
  }
}

static edgert_status prove_step(opening *o, uint32_t i) {
  return ert_prove(&(ert_prepare){.step = &o->session->plan->steps[i], .simd = o->session->simd});
}

static edgert_status with_steps(opening *o, edgert_status (*each)(opening *, uint32_t)) {
  for (uint32_t i = 0; i < o->session->plan->n_steps; i++) ERT_TRY(each(o, i));
  return EDGERT_OK;
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

static edgert_status prepare_all(opening *o) {
  edgert_session *session = o->session;
  if (!session->device) return with_steps(o, prepare_step);
  ERT_TRY(ert_device_begin(session->device, ert_device_stream(session->device)));
  edgert_status status = with_steps(o, prepare_step);
  if (status == EDGERT_OK) status = gather_steps(session);
  return ert_device_end(session->device, true, status);
}

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
    if (session->plan->steps[i].code_bytes == 0) continue;
    session->plan->steps[i].code = at;
    session->plan->steps[i].executable = shift;
  }
  return EDGERT_OK;
}

/* What prepared steps need to run. */
static edgert_status open_rest(edgert_session *session) {
  size_t scratch = 0, code = 0;
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    const ert_step *step = &session->plan->steps[i];
    if (!step->made && step->code_bytes > code) code = step->code_bytes;
    if (step->scratch_bytes > scratch) scratch = step->scratch_bytes;
  }
  /* Before scratch, of which opening then needs no page. */
  ERT_TRY(ert_schedule_open(session->plan, ert_pool_workers(session->pool), &session->room, &session->schedule));
  ERT_TRY(open_scratch(session, scratch, code));
  ert_room_finish(&session->room);
  return EDGERT_OK;
}

/* Now that they are made, instructions can be executed. If the system does not allow that, their steps do without any. */
static void seal_made(edgert_session *session) {
  if (ert_made_seal(session->made)) return;
  for (uint32_t i = 0; i < session->plan->n_steps; i++) {
    ert_step *step = &session->plan->steps[i];
    if (step->made) step->executable = 0;
    step->made = NULL;
  }
}

/* The caller by himself: in the order of the steps, so that the first that is refused says why. */
static edgert_status open_alone(opening *o) {
  ERT_TRY(open_plan(o));
  ERT_TRY(prepare_all(o));
  open_made(o->session);
  ERT_TRY(open_rest(o->session));
  return with_steps(o, prove_step);
}

/* As many steps as the worker can get hold of. */
static void with_some(opening *o, atomic_uint *next, edgert_status (*each)(opening *, uint32_t)) {
  for (uint32_t i; !atomic_load(&o->refused) && (i = atomic_fetch_add(next, 1)) < o->session->plan->n_steps;)
    if (each(o, i) != EDGERT_OK) atomic_store(&o->refused, true);
}

/* Makes pages appear, as many as the worker can get hold of: `next` is where those are that nobody has touched. */
static void appear_some(uint8_t *data, size_t bytes, size_t piece, atomic_size_t *next) {
  for (size_t at; (at = atomic_fetch_add(next, piece)) < bytes;)
    ert_pages_appear(data + at, data + (bytes - at < piece ? bytes : at + piece));
}

/* Not more than MOST bytes, as nothing proves that the steps use all that the metadata asks for. */
static void appear_arena(opening *o) {
  enum { MOST = 64 << 20 };
  const edgert_session *session = o->session;
  appear_some(session->arena, session->arena_bytes < MOST ? session->arena_bytes : MOST, ERT_PAGES_HUGE, &o->arena);
}

/* All workers, of whom the caller begins with the plan, and the others with the arena. */
static void open_together(void *context, uint32_t worker) {
  enum { MADE_PIECE = 32 << 10 };
  opening *o = context;
  ert_pool *pool = o->session->pool;
  if (worker == 0) {
    if (open_plan(o) != EDGERT_OK) atomic_store(&o->refused, true);
    ert_gate_open(&o->planned);
  } else {
    appear_arena(o);
    (void)ert_gate_wait(&o->planned, 0, true);
  }
  with_some(o, &o->prepared, prepare_step);
  appear_arena(o);
  ert_pool_barrier(pool, worker);
  if (atomic_load(&o->refused)) return;
  if (worker == 0) open_made(o->session);
  ert_pool_barrier(pool, worker);
  if (worker == 0 && open_rest(o->session) != EDGERT_OK) atomic_store(&o->refused, true);
  appear_some(o->session->made.data, o->session->made.bytes, MADE_PIECE, &o->made);
  ert_pool_barrier(pool, worker); /* nothing can be made where pages may yet appear */
  with_some(o, &o->proven, prove_step);
}

/* The arena, the plan, and what was opened for it. */
static void close_memory(edgert_session *session) {
  ert_pages_close(session->code);
  ert_pages_close(session->made);
  ert_room_close(&session->room);
  session->code = session->made = (ert_pages){NULL, 0, NULL, 0};
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
  ERT_TRY(open_device(session, bundle, program, options));
  ERT_TRY(open_arena(session));
  opening o = {.session = session, .bundle = bundle, .program = program};
  const bool several = ert_pool_workers(session->pool) > 1 && session->arena_bytes > ERT_PAGES_SMALL;
  if (several && !session->device) {
    ert_pool_run(session->pool, open_together, &o);
    if (atomic_load(&o.refused)) {
      close_memory(session);
      ERT_TRY(open_arena(session));
      ERT_TRY(open_alone(&o));
    }
  } else {
    ERT_TRY(open_alone(&o));
  }
  seal_made(session);
  return EDGERT_OK;
}

edgert_status edgert_session_open(const edgert_bundle *bundle, const edgert_session_options *given,
                                  edgert_session **out) {
  ERT_TRY(ert_expect(out, "out"));
  *out = NULL;
  ERT_TRY(ert_expect(bundle, "bundle"));
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
  close_memory(session);
  ert_free(session);
}
