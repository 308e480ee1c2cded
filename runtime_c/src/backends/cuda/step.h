/* A step on the device: entries of a module, launched in order with the same pointers. */
#ifndef ERT_BACKENDS_CUDA_STEP_H
#define ERT_BACKENDS_CUDA_STEP_H

#include "backends/cuda/internal.h"

extern const ert_kernel ert_kernel_launch, ert_kernel_put, ert_kernel_get;

/* How an entry is launched. */
typedef struct ert_launch {
  CUfunction function;
  uint32_t grid[3], threads;
} ert_launch;

/* The state of steps of the kernels launch, put and get. */
typedef struct ert_device_step {
  ert_device *device;
  const ert_step *step;
  struct ert_run *run;
  ert_launch *launches;
  CUdeviceptr *pointers; /* what the entries get */
  uint32_t n_launches, n_pointers;
  void *staging;      /* of a `put` or `get`: its memory of the host; NULL: none */
  CUdeviceptr staged; /* and the pointer that its entries get for that, */
  CUdeviceptr bound;  /* unless it has one of the caller's; 0: it has not */
} ert_device_step;

static inline bool ert_step_is_put(const ert_device_step *s) { return s->step->kernel == &ert_kernel_put; }
static inline bool ert_step_is_get(const ert_device_step *s) { return s->step->kernel == &ert_kernel_get; }

/* The host's tensor of a `put` or `get`. */
static inline const ert_tensor *ert_step_host(const ert_device_step *s) {
  return ert_step_is_put(s) ? s->step->in[0] : s->step->out[0];
}

/* Copies the input of a `put` to its staging memory, or the staging memory of a `get` to its output, unless the caller's
 * buffer is on the device. */
void ert_step_copy_in(const ert_device_step *s);
void ert_step_copy_out(const ert_device_step *s);

/* Gives a step to a stream: its entries, and copies between its staging memory and the device's. */
edgert_status ert_step_submit(const ert_device_step *s, CUstream stream);

#endif
