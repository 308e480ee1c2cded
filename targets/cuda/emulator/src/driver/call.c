/* What happens at the begin and end of every call: the lock, failures on demand, the current context. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

enum { MAX_NAMES = 128 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static _Thread_local CUcontext current;

/* How often each function was called since the initialisation. */
static struct {
  char name[48];
  unsigned calls;
} called[MAX_NAMES];

static unsigned count_call(const char *name) {
  for (size_t i = 0; i < MAX_NAMES; i++) {
    if (called[i].name[0] == '\0') snprintf(called[i].name, sizeof called[i].name, "%s", name);
    if (strcmp(called[i].name, name) == 0) return ++called[i].calls;
  }
  return 0;
}

/* EDGERT_EMULATOR_FAIL=function:n:CUDA_ERROR_NAME,...: the n-th call of the function fails so; n = 0: each one. */
static CUresult demanded(const char *name) {
  unsigned n = count_call(name);
  const char *at = getenv("EDGERT_EMULATOR_FAIL");
  for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    char function[64], error[64];
    unsigned which;
    if (sscanf(at, "%63[^:]:%u:%63[^,]", function, &which, error) != 3 || strcmp(function, name) != 0) continue;
    if (which == 0 || which == n) return emu_fail(emu_result_named(error), "%s: call %u fails as asked for", name, n);
  }
  return CUDA_SUCCESS;
}

emu_call emu_enter(const char *name, bool needs_context) {
  pthread_mutex_lock(&lock);
  CUresult result = demanded(name);
  if (result == CUDA_SUCCESS && !initialised && strcmp(name, "cuInit") != 0 && strcmp(name, "cuDriverGetVersion") != 0)
    result = CUDA_ERROR_NOT_INITIALIZED;
  if (result == CUDA_SUCCESS && needs_context) {
    if (!current)
      result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!emu_object_valid(current, EMU_CONTEXT))
      result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
      result = current->sticky;
  }
  return (emu_call){result};
}

void emu_leave(emu_call *call) {
  (void)call;
  pthread_mutex_unlock(&lock);
}

void emu_initialised(void) {
  initialised = true;
  memset(called, 0, sizeof called);
}

CUcontext emu_current(void) { return current; }
void emu_set_current(CUcontext context) { current = context; }
