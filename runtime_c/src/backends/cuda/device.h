/* What sessions see of a CUDA device: opened for one program, its steps prepared by the kernels launch, put and get. */
#ifndef ERT_BACKENDS_CUDA_DEVICE_H
#define ERT_BACKENDS_CUDA_DEVICE_H

#include <stdbool.h>

#include "base/kernel.h"

typedef struct ert_device ert_device;

/* A module of a program: machine code, PTX as a raw DEFLATE stream, or both; borrowed. */
typedef struct ert_code {
  const uint8_t *cubin; /* NULL: none */
  const uint8_t *ptx;   /* NULL: none */
  size_t cubin_bytes, ptx_stored, ptx_bytes;
} ert_code;

/* What a program needs. */
typedef struct ert_device_request {
  const char *library; /* of the driver; NULL: ert_driver_open says which */
  bool emulate;        /* it has to be the emulator */
  const char *device;  /* that it was packed for: "sm_62" */
  const ert_code *codes;
  uint32_t n_codes;
  size_t arena_bytes;
  const char *code_cache; /* folder for translated code; "": none, NULL: ert_cache_open says which */
  void (*progress)(void *user, uint32_t done, uint32_t total); /* while code is translated; NULL: nobody looks */
  void *user;
} ert_device_request;

/* Whether there is a driver with a device that can run it; opens nothing. */
edgert_status ert_device_fits(const ert_device_request *request);

/* Opens the first device that fits: its primary context, a stream, the modules, and zeroed memory for the arena. The bytes
 * of the codes are not needed any more afterwards. */
edgert_status ert_device_open(const ert_device_request *request, ert_device **out);

/* Gives everything back, and waits for what still runs. NULL is allowed. */
void ert_device_close(ert_device *device);

/* The address of the arena's first byte, of no use to the host. */
uint64_t ert_device_arena(const ert_device *device);

/* "NVIDIA Tegra X2"; lives as long as the device. */
const char *ert_device_name(const ert_device *device);

/* Prepared steps that follow each other, of one phase: they will be given to the device together. */
edgert_status ert_device_gather(ert_device *device, ert_step *const *steps, uint32_t count);

/* Its number for the driver, and its own stream. */
int ert_device_number(const ert_device *device);
void *ert_device_stream(const ert_device *device);

/* Around the preparation of the steps, and around a run of them on a stream, on one thread: the device's context is current,
 * and what ran before on other streams comes first. After a step failed the others do nothing, and ert_device_end returns
 * the failure; after the device is lost ert_device_begin fails. ert_device_end waits for the device if it is to, unless the
 * `status` that it is given, and returns, is a failure. */
edgert_status ert_device_begin(ert_device *device, void *stream);
edgert_status ert_device_end(ert_device *device, bool wait, edgert_status status);

/* Makes what is given to `after` from now on wait for all that `before` has been given. */
edgert_status ert_device_order(ert_device *device, void *before, void *after);

/* ---- the caller's buffers in memory of the device (bind.c) ---- */

/* Whether the step moves this tensor between host and device, so that it can be given an address there. */
bool ert_device_moves(const ert_step *step, const ert_tensor *host);

/* Lets such a step read or write the address, a multiple of 16, or the host's tensor if that is 0. */
edgert_status ert_device_bind(ert_step *step, uint64_t address);

/* For buffers that steps of the processor use, too: memory of the host, which lives as long as the device; a copy of the
 * device's memory in it, waited for; and a copy of it in the device's memory, which the end of the run may wait for. Within
 * ert_device_begin and ert_device_end, but the first. */
edgert_status ert_device_mirror(ert_device *device, size_t bytes, const char *what, void **out);
edgert_status ert_device_fetch(ert_device *device, void *host, uint64_t address, size_t bytes, const char *what);
edgert_status ert_device_store(ert_device *device, uint64_t address, const void *host, size_t bytes, const char *what);

/* Whether every step waits until it is done, so that its time can be taken. */
void ert_device_stepwise(ert_device *device, bool stepwise);

#endif
