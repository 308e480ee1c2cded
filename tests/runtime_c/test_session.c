/* Sessions: what they say of themselves, buffers, results against plain loops, repeatability, threads, profiles. */
#include <pthread.h>

#include "platform/cpu.h"
#include "test.h"

enum { ROWS = 64, COLUMNS = 96, SIZE = ROWS * COLUMNS }; /* as in bundles.py */

static edgert_bundle *bundle, *several; /* session.edge, of one core, and cores.edge */

/* A session with buffers for its input and its outputs. */
typedef struct fixture {
  edgert_session *session;
  float x[SIZE], y[SIZE];
  int64_t where[2 * SIZE];
} fixture;

static fixture *open_program(const edgert_bundle *of, const char *target, uint32_t threads, const char *isa) {
  fixture *f = calloc(1, sizeof *f);
  CHECK(f != NULL);
  edgert_session_options options = {.struct_size = sizeof options, .target = target, .threads = threads, .isa = isa};
  CHECK(edgert_session_open(of, &options, &f->session) == EDGERT_OK);
  CHECK(edgert_session_bind_input(f->session, 0, f->x, sizeof f->x) == EDGERT_OK);
  CHECK(edgert_session_bind_output(f->session, 0, f->y, sizeof f->y) == EDGERT_OK);
  CHECK(edgert_session_bind_output(f->session, 1, f->where, sizeof f->where) == EDGERT_OK);
  return f;
}

static fixture *open_fixture(uint32_t threads, const char *isa) { return open_program(bundle, NULL, threads, isa); }

static void close_fixture(fixture *f) {
  edgert_session_close(f->session);
  free(f);
}

static void fill(fixture *f, uint32_t seed) {
  for (int i = 0; i < SIZE; i++) f->x[i] = ((float)(next_random(&seed) % 2000) - 1000) / 512;
}

/* What the bundle computes, by plain loops. */
static void expect_results(const fixture *f) {
  int64_t found = 0, shape[EDGERT_MAX_RANK] = {0};
  for (int r = 0; r < ROWS; r++) {
    for (int c = 0; c < COLUMNS; c++) {
      float relu = f->x[r * COLUMNS + c] > 0 ? f->x[r * COLUMNS + c] : 0;
      CHECK(f->y[c * ROWS + r] == relu + (float)c / 8);
      if (relu == 0) continue;
      CHECK(f->where[found] == r && f->where[SIZE + found] == c);
      found++;
    }
  }
  CHECK(edgert_session_output_shape(f->session, 1, shape) == EDGERT_OK && shape[0] == 2 && shape[1] == found);
}

static void describes(void) {
  fixture *f = open_fixture(2, NULL);
  edgert_session_info info;
  CHECK(edgert_session_describe(f->session, &info) == EDGERT_OK);
  CHECK(info.cores == 1 && info.threads == 1 && info.steps == 4 && info.arena_bytes == 8 * SIZE + 64);
  CHECK(strcmp(info.isa, edgert_isa(0)) == 0 && strncmp(info.target, "cpu", 3) == 0);
  CHECK(edgert_session_input_count(f->session) == 1 && edgert_session_output_count(f->session) == 2);
  edgert_tensor_info t;
  CHECK(edgert_session_input(f->session, 0, &t) == EDGERT_OK);
  CHECK(strcmp(t.name, "x") == 0 && t.dtype == EDGERT_F32 && t.rank == 2 && t.shape[0] == ROWS &&
        t.shape[1] == COLUMNS);
  CHECK(t.bytes == sizeof f->x && t.dynamic == 0);
  CHECK(edgert_session_output(f->session, 1, &t) == EDGERT_OK);
  CHECK(t.dtype == EDGERT_I64 && t.dynamic == 1 && t.shape[1] == SIZE);
  CHECK(edgert_session_output(f->session, 2, &t) == EDGERT_ERROR_INVALID_ARGUMENT);
  int64_t shape[EDGERT_MAX_RANK];
  CHECK(edgert_session_output_shape(f->session, 1, shape) == EDGERT_OK && shape[1] == SIZE); /* before any run */
  close_fixture(f);
}

static void library(void) {
  CHECK(strlen(edgert_version()) >= 5 && edgert_cores() >= 1);
  CHECK(strcmp(edgert_status_id(EDGERT_OK), "ok") == 0);
  CHECK(strcmp(edgert_status_id(EDGERT_ERROR_CORRUPT), "corrupt") == 0);
  CHECK(strcmp(edgert_status_id((edgert_status)1000), "unknown") == 0);
  uint32_t n = 0;
  while (edgert_isa(n)) n++;
  CHECK(n >= 1 && strcmp(edgert_isa(n - 1), "scalar") == 0 && edgert_isa(n + 5) == NULL);
}

static void refusals(void) {
  edgert_session *session;
  edgert_session_options options = {.struct_size = sizeof options, .target = "gpu"};
  CHECK(edgert_session_open(bundle, &options, &session) == EDGERT_ERROR_NO_PROGRAM && session == NULL);
  CHECK(strstr(edgert_last_error(), "cpu, cpu-aarch64") != NULL);
  options.target = strcmp(ert_cpu_arch, "x86_64") == 0 ? "cpu-aarch64" : "cpu";
  CHECK(edgert_session_open(bundle, &options, &session) == EDGERT_ERROR_NO_PROGRAM);
  options = (edgert_session_options){.struct_size = sizeof options, .isa = "mmx"};
  CHECK(edgert_session_open(bundle, &options, &session) == EDGERT_ERROR_INVALID_ARGUMENT);
  options = (edgert_session_options){.struct_size = sizeof options, .threads = 5000};
  CHECK(edgert_session_open(bundle, &options, &session) == EDGERT_ERROR_INVALID_ARGUMENT);
  options = (edgert_session_options){.struct_size = 3};
  CHECK(edgert_session_open(bundle, &options, &session) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_open(NULL, NULL, &session) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_open(bundle, NULL, NULL) == EDGERT_ERROR_INVALID_ARGUMENT);
}

static void bindings(void) {
  edgert_session *session;
  CHECK(edgert_session_open(bundle, NULL, &session) == EDGERT_OK);
  fixture *f = calloc(1, sizeof *f);
  CHECK(f != NULL);
  CHECK(edgert_session_run(session) == EDGERT_ERROR_NOT_BOUND);
  CHECK(edgert_session_bind_input(session, 1, f->x, sizeof f->x) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_bind_input(session, 0, f->x, sizeof f->x - 4) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_bind_input(session, 0, NULL, sizeof f->x) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_bind_input(session, 0, (char *)f->x + 1, sizeof f->x) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_bind_input(session, 0, f->x, sizeof f->x) == EDGERT_OK);
  CHECK(edgert_session_bind_output(session, 0, f->y, sizeof f->y) == EDGERT_OK);
  CHECK(edgert_session_run(session) == EDGERT_ERROR_NOT_BOUND);
  CHECK(strstr(edgert_last_error(), "where") != NULL);
  CHECK(edgert_session_bind_output(session, 1, f->where, sizeof f->where) == EDGERT_OK);
  CHECK(edgert_session_run(session) == EDGERT_OK);
  CHECK(edgert_session_bind_output(session, 0, f->x + 1, sizeof f->y) == EDGERT_OK); /* over the input */
  CHECK(edgert_session_run(session) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_bind_output(session, 0, f->y, sizeof f->y) == EDGERT_OK);
  CHECK(edgert_session_run(session) == EDGERT_OK);
  edgert_session_close(session);
  edgert_session_close(NULL);
  free(f);
}

/* A target of cores.edge for this machine. */
static const char *target_here(const char *name) {
  static char text[32];
  snprintf(text, sizeof text, "%s%s", name, strcmp(ert_cpu_arch, "x86_64") == 0 ? "" : "-aarch64");
  return text;
}

/* The program for the most cores that are no more than the threads, or if all are for more, for the fewest; and no more
 * threads than cores. */
static void chooses(void) {
  static const struct {
    const char *target;
    uint32_t threads, cores, workers;
  } cases[] = {
      {"cpu", 1, 1, 1},  {"cpu", 2, 2, 2},  {"cpu", 3, 3, 3},  {"cpu", 7, 3, 3},
      {"wide", 1, 3, 1}, {"wide", 2, 3, 2}, {"wide", 3, 3, 3}, {"wide", 9, 4, 4},
  };
  edgert_session_info info;
  for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fixture *f = open_program(several, target_here(cases[i].target), cases[i].threads, NULL);
    CHECK(edgert_session_describe(f->session, &info) == EDGERT_OK);
    CHECK(info.cores == cases[i].cores && info.threads == cases[i].workers);
    close_fixture(f);
  }
  fixture *f = open_program(several, NULL, 0, NULL); /* of the first target that runs here, for the usable cores */
  CHECK(edgert_session_describe(f->session, &info) == EDGERT_OK);
  CHECK(strcmp(info.target, target_here("cpu")) == 0);
  CHECK(info.cores == (edgert_cores() < 3 ? edgert_cores() : 3) && info.threads == info.cores);
  close_fixture(f);
  edgert_program_info program;
  for (uint32_t i = 0; i < edgert_bundle_program_count(several); i++) {
    static const uint32_t cores[] = {2, 1, 3, 4, 3};
    CHECK(edgert_bundle_program(several, i, &program) == EDGERT_OK && program.cores == cores[i % 5]);
  }
}

/* The same bits for every program, thread count, instruction set and repetition; these steps do not round differently. */
static void expect_answers(const edgert_bundle *of, const char *target) {
  for (uint32_t i = 0; edgert_isa(i); i++) {
    for (uint32_t threads = 1; threads <= 4; threads++) {
      fixture *f = open_program(of, target, threads, edgert_isa(i));
      for (uint32_t seed = 1; seed <= 3; seed++) {
        fill(f, seed);
        CHECK(edgert_session_run(f->session) == EDGERT_OK);
        expect_results(f);
      }
      memset(f->y, 0xff, sizeof f->y);
      CHECK(edgert_session_run(f->session) == EDGERT_OK);
      expect_results(f);
      close_fixture(f);
    }
  }
}

static void results(void) {
  expect_answers(bundle, NULL);
  expect_answers(several, target_here("cpu"));
  expect_answers(several, target_here("wide"));
}

/* Buffers aligned to the element only, and bound anew. */
static void odd_buffers_of(const edgert_bundle *of) {
  fixture *f = open_program(of, NULL, 2, NULL), *other = open_program(of, NULL, 1, NULL);
  fill(f, 9);
  char *memory = malloc(sizeof f->x + 4);
  CHECK(memory != NULL);
  memcpy(memory + 4, f->x, sizeof f->x);
  CHECK(edgert_session_bind_input(f->session, 0, memory + 4, sizeof f->x) == EDGERT_OK);
  CHECK(edgert_session_bind_output(f->session, 0, other->y, sizeof other->y) == EDGERT_OK);
  CHECK(edgert_session_run(f->session) == EDGERT_OK);
  memcpy(f->y, other->y, sizeof f->y);
  expect_results(f);
  free(memory);
  close_fixture(f);
  close_fixture(other);
}

static void odd_buffers(void) {
  odd_buffers_of(bundle);
  odd_buffers_of(several);
}

static void *run_many(void *argument) {
  fixture *f = open_program(several, NULL, 1 + *(uint32_t *)argument % 3, NULL);
  for (uint32_t i = 0; i < 50; i++) {
    fill(f, *(uint32_t *)argument + i);
    CHECK(edgert_session_run(f->session) == EDGERT_OK);
    expect_results(f);
  }
  close_fixture(f);
  return NULL;
}

/* Sessions over one bundle, each in its thread. */
static void several_sessions(void) {
  pthread_t threads[4];
  uint32_t seeds[4];
  for (uint32_t i = 0; i < 4; i++) {
    seeds[i] = 1000 * i; /* 1, 2 or 3 threads */
    CHECK(pthread_create(&threads[i], NULL, run_many, &seeds[i]) == 0);
  }
  for (uint32_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

typedef struct trace {
  uint32_t events;
  uint64_t last;
} trace;

static void record(void *user, const edgert_step_event *event) {
  static const char *const kernels[] = {"unary", "binary", "copy", "non_zero"};
  static const char *const nodes[] = {"activate", "shift", "turn", "find"};
  trace *t = user;
  CHECK(event->step == t->events % 4 && strcmp(event->kernel, kernels[event->step]) == 0);
  CHECK(strcmp(event->node, nodes[event->step]) == 0);
  CHECK(event->begin_ns >= t->last && event->end_ns >= event->begin_ns);
  t->last = event->end_ns;
  t->events++;
}

static void profiles(void) {
  fixture *f = open_fixture(2, NULL);
  trace t = {0, 0};
  CHECK(edgert_session_profile(f->session, record, &t) == EDGERT_OK);
  CHECK(edgert_session_run(f->session) == EDGERT_OK && edgert_session_run(f->session) == EDGERT_OK);
  CHECK(t.events == 8);
  CHECK(edgert_session_profile(f->session, NULL, NULL) == EDGERT_OK);
  CHECK(edgert_session_run(f->session) == EDGERT_OK && t.events == 8);
  close_fixture(f);
}

/* The events of one run of a program of cores.edge. */
typedef struct phases {
  uint32_t cores, events;
  uint64_t ended[3]; /* by phase */
} phases;

static void record_phase(void *user, const edgert_step_event *event) {
  phases *p = user;
  uint32_t n = p->cores, step = event->step, phase = step < n ? 0 : step < n + 2 ? 1 : 2;
  uint32_t core = phase == 0 ? step : phase == 2 ? step - n - 2 : step == n ? EDGERT_ALL_CORES : n - 1;
  CHECK(step == p->events++ && event->core == core);
  CHECK(event->begin_ns > 0 && event->end_ns >= event->begin_ns);
  if (phase > 0) CHECK(event->begin_ns >= p->ended[phase - 1]);
  if (event->end_ns > p->ended[phase]) p->ended[phase] = event->end_ns;
}

/* Every step of every core, in the order of the program; no phase begins before the one before has ended. */
static void profiles_cores(void) {
  for (uint32_t threads = 1; threads <= 4; threads++) {
    fixture *f = open_program(several, target_here("wide"), threads, NULL);
    edgert_session_info info;
    CHECK(edgert_session_describe(f->session, &info) == EDGERT_OK);
    for (int run = 0; run < 20; run++) {
      phases p = {.cores = info.cores};
      CHECK(edgert_session_profile(f->session, record_phase, &p) == EDGERT_OK);
      CHECK(edgert_session_run(f->session) == EDGERT_OK && p.events == info.steps && p.events == 2 * info.cores + 2);
    }
    close_fixture(f); /* with the hook set */
  }
}

/* NULL where an object or a result belongs. */
static void nothing_given(void) {
  fixture *f = open_fixture(1, NULL);
  edgert_session *none = NULL, *s = f->session;
  edgert_tensor_info tensor;
  int64_t shape[EDGERT_MAX_RANK];
  const void *data;
  size_t bytes;
  float x[1] = {0};
  const edgert_status found[] = {
      edgert_session_run(none),
      edgert_session_run_async(none, NULL),
      edgert_session_order(none, NULL, NULL),
      edgert_session_describe(none, &(edgert_session_info){0}),
      edgert_session_describe(s, NULL),
      edgert_session_input(none, 0, &tensor),
      edgert_session_input(s, 0, NULL),
      edgert_session_output(none, 0, &tensor),
      edgert_session_output(s, 0, NULL),
      edgert_session_output_shape(none, 0, shape),
      edgert_session_output_shape(s, 0, NULL),
      edgert_session_bind_input(none, 0, x, sizeof x),
      edgert_session_bind_output(none, 0, x, sizeof x),
      edgert_session_bind_device_input(none, 0, x, sizeof x),
      edgert_session_bind_device_output(none, 0, x, sizeof x),
      edgert_session_profile(none, NULL, NULL),
      edgert_session_golden(none, 0, &(edgert_golden_info){0}),
      edgert_session_golden(s, 0, NULL),
      edgert_session_golden_input(none, 0, 0, &data, &bytes),
      edgert_session_golden_input(s, 0, 0, NULL, &bytes),
      edgert_session_golden_output(s, 0, 0, &data, NULL),
      edgert_bundle_describe(NULL, &(edgert_bundle_info){0}),
      edgert_bundle_describe(bundle, NULL),
      edgert_bundle_program(NULL, 0, &(edgert_program_info){0}),
      edgert_bundle_program(bundle, 0, NULL),
  };
  for (size_t i = 0; i < sizeof found / sizeof *found; i++) CHECK(found[i] == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(edgert_last_error(), "out") != NULL && strstr(edgert_last_error(), "NULL") != NULL);
  CHECK(edgert_session_input_count(NULL) == 0 && edgert_session_output_count(NULL) == 0);
  CHECK(edgert_bundle_program_count(NULL) == 0);
  edgert_bundle_close(NULL);
  close_fixture(f);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  CHECK(edgert_bundle_open(golden_path(arguments, "session.edge"), NULL, &bundle) == EDGERT_OK);
  CHECK(edgert_bundle_open(golden_path(arguments, "cores.edge"), NULL, &several) == EDGERT_OK);
  RUN(describes);
  RUN(chooses);
  RUN(library);
  RUN(refusals);
  RUN(nothing_given);
  RUN(bindings);
  RUN(results);
  RUN(odd_buffers);
  RUN(several_sessions);
  RUN(profiles);
  RUN(profiles_cores);
  edgert_bundle_close(several);
  edgert_bundle_close(bundle);
  return 0;
}
