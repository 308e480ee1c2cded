/* Every allocation, file, mapping and thread refused in turn, once and from then on: a clean error or success, and no
 * leak (which the sanitised build would report). And: a run allocates nothing. */
#include <stdatomic.h>

#include "refuse.h"

/* Allocators called by the library; the linker leads all its calls here (CMakeLists.txt). */
static atomic_uint allocations;

#define WRAP(type, name, parameters, arguments) \
  type __real_##name parameters;                \
  type __wrap_##name parameters;                \
  type __wrap_##name parameters {               \
    atomic_fetch_add(&allocations, 1);          \
    return __real_##name arguments;             \
  }

WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, realloc, (void *memory, size_t bytes), (memory, bytes))
WRAP(void *, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(int, posix_memalign, (void **out, size_t alignment, size_t bytes), (out, alignment, bytes))

static float x[64 * 96], y[96 * 64];
static int64_t where[2 * 64 * 96];

static edgert_status bind(edgert_session *session) {
  edgert_status status = edgert_session_bind_input(session, 0, x, sizeof x);
  if (status == EDGERT_OK) status = edgert_session_bind_output(session, 0, y, sizeof y);
  return status == EDGERT_OK ? edgert_session_bind_output(session, 1, where, sizeof where) : status;
}

static void ignore(void *user, const edgert_step_event *event) {
  (void)event;
  ++*(uint32_t *)user;
}

/* Everything a program does with the library, from opening to closing. */
static edgert_status use(const char *path) {
  edgert_open_options open_options = {.struct_size = sizeof open_options, .threads = 2};
  edgert_session_options options = {.struct_size = sizeof options, .threads = 3};
  edgert_bundle *bundle;
  edgert_session *session = NULL;
  uint32_t events = 0;
  edgert_status status = edgert_bundle_open(path, &open_options, &bundle);
  CHECK((status == EDGERT_OK) == (bundle != NULL));
  if (status == EDGERT_OK) {
    status = edgert_session_open(bundle, &options, &session);
    CHECK((status == EDGERT_OK) == (session != NULL));
  }
  if (status == EDGERT_OK) status = bind(session);
  if (status == EDGERT_OK) status = edgert_session_profile(session, ignore, &events);
  if (status == EDGERT_OK) status = edgert_session_run(session);
  edgert_session_close(session);
  edgert_bundle_close(bundle);
  return status;
}

static const char *path;

static void every_operation_fails(void) {
  uint32_t failures = 0, operations = refuse_each(use, path, &failures);
  printf("  %u operations, %u clean errors\n", operations, failures);
  CHECK(operations > 10 && failures == 2 * operations); /* none of them can be done without */
  CHECK(use(path) == EDGERT_OK);
}

static void run_allocates_nothing(void) {
  edgert_session_options options = {.struct_size = sizeof options, .threads = 2};
  uint32_t events = 0;
  edgert_bundle *bundle;
  edgert_session *session;
  CHECK(edgert_bundle_open(path, NULL, &bundle) == EDGERT_OK);
  CHECK(edgert_session_open(bundle, &options, &session) == EDGERT_OK);
  CHECK(atomic_load(&allocations) > 0);
  atomic_store(&allocations, 0);
  CHECK(bind(session) == EDGERT_OK);
  for (int i = 0; i < 100; i++) CHECK(edgert_session_run(session) == EDGERT_OK);
  CHECK(atomic_load(&allocations) == 0);
  CHECK(edgert_session_profile(session, ignore, &events) == EDGERT_OK);
  atomic_store(&allocations, 0);
  for (int i = 0; i < 100; i++) CHECK(edgert_session_run(session) == EDGERT_OK);
  CHECK(atomic_load(&allocations) == 0 && events % 100 == 0 && events > 0);
  edgert_session_close(session);
  edgert_bundle_close(bundle);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  static const char *const names[] = {"session.edge", "cores.edge"};
  for (int i = 0; i < 2; i++) {
    path = golden_path(arguments, names[i]);
    RUN(every_operation_fails);
    RUN(run_allocates_nothing);
  }
  return 0;
}
