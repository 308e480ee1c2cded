/* Bundles given as arguments, used from opening to closing while every allocation, file, mapping and thread is refused in
 * turn, once and from then on: a clean error or success, and nothing stays allocated. With EDGERT_CUDA_LIBRARY, the
 * emulator, so is every call of the driver. */
#include <stdatomic.h>

#include "../runtime_c/refuse.h"

/* Blocks that the library holds; the linker leads its only allocating and freeing calls here. */
static atomic_int held;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
  void *memory = __real_calloc(count, bytes);
  if (memory) atomic_fetch_add(&held, 1);
  return memory;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory) {
  if (memory) atomic_fetch_sub(&held, 1);
  __real_free(memory);
}

enum { MOST_BINDINGS = 16, BUFFER_BYTES = 1 << 17 };

static uint64_t buffers[MOST_BINDINGS][BUFFER_BYTES / 8];

static edgert_status bind(edgert_session *session) {
  uint32_t inputs = edgert_session_input_count(session), count = inputs + edgert_session_output_count(session);
  CHECK(count <= MOST_BINDINGS);
  for (uint32_t i = 0; i < count; i++) {
    edgert_tensor_info info;
    edgert_status status =
        i < inputs ? edgert_session_input(session, i, &info) : edgert_session_output(session, i - inputs, &info);
    CHECK(status == EDGERT_OK && info.bytes <= BUFFER_BYTES);
    status = i < inputs ? edgert_session_bind_input(session, i, buffers[i], info.bytes)
                        : edgert_session_bind_output(session, i - inputs, buffers[i], info.bytes);
    if (status != EDGERT_OK) return status;
  }
  return EDGERT_OK;
}

/* Everything a program does with the library. */
static edgert_status use(const char *path) {
  edgert_open_options open_options = {.struct_size = sizeof open_options, .threads = 2};
  edgert_session_options options = {.struct_size = sizeof options, .threads = 2, .allow_native = 1};
  edgert_bundle *bundle;
  edgert_session *session = NULL;
  int before = atomic_load(&held);
  edgert_status status = edgert_bundle_open(path, &open_options, &bundle);
  CHECK((status == EDGERT_OK) == (bundle != NULL));
  if (status == EDGERT_OK) {
    status = edgert_session_open(bundle, &options, &session);
    CHECK((status == EDGERT_OK) == (session != NULL));
  }
  if (status == EDGERT_OK) status = bind(session);
  if (status == EDGERT_OK) {
    int ready = atomic_load(&held);
    status = edgert_session_run(session);
    CHECK(atomic_load(&held) == ready);
  }
  edgert_session_close(session);
  edgert_bundle_close(bundle);
  CHECK(atomic_load(&held) == before);
  return status;
}

static void refuse_driver_calls(const char *path) {
  static const char *const functions[] = {
#define REQUIRED(name, parameters) #name,
#define OPTIONAL                   REQUIRED
#include "backends/cuda/functions.def"
#undef OPTIONAL
#undef REQUIRED
  };
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    for (int call = 0; call < 16; call++) { /* 0: each one */
      char fail[128];
      snprintf(fail, sizeof fail, "%s:%d:CUDA_ERROR_LAUNCH_FAILED", functions[i], call);
      CHECK(setenv("EDGERT_EMULATOR_FAIL", fail, 1) == 0);
      (void)use(path);
    }
  }
  CHECK(unsetenv("EDGERT_EMULATOR_FAIL") == 0);
}

int main(int count, char **arguments) {
  uint32_t operations = 0, failures = 0;
  if (getenv("EDGERT_CUDA_LIBRARY"))
    for (int i = 1; i < count; i++) refuse_driver_calls(arguments[i]);
  for (int i = 1; i < count; i++) operations += refuse_each(use, arguments[i], &failures);
  printf("%d bundles, %u operations, %u clean errors\n", count - 1, operations, failures);
  CHECK(count > 1 && failures > operations); /* hardly any of them can be done without */
  return 0;
}
