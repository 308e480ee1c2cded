/* Runs: steps that follow each other on the device, given to it together. */
#ifndef ERT_BACKENDS_CUDA_RUN_H
#define ERT_BACKENDS_CUDA_RUN_H

#include "backends/cuda/step.h"

extern const ert_kernel ert_kernel_launch, ert_kernel_put, ert_kernel_get;

typedef struct ert_run {
  struct ert_run *next;
  ert_device_step **steps;
  uint32_t n_steps;
} ert_run;

/* Executes a step in its turn: the first of a run begins all of it, the last one ends it. */
void ert_run_step(ert_device_step *s);

#endif
