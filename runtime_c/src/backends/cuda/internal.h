/* A device as its own files see it. */
#ifndef ERT_BACKENDS_CUDA_INTERNAL_H
#define ERT_BACKENDS_CUDA_INTERNAL_H

#include "backends/cuda/device.h"
#include "backends/cuda/driver.h"
#include "platform/cache.h"

/* Memory of the device, or of the host that the device sees. */
typedef struct ert_block {
  struct ert_block *next;
  CUdeviceptr address; /* for the device */
  void *host;          /* NULL: memory of the device */
  const void *source;  /* the constant that is there; NULL: none */
  size_t source_bytes;
} ert_block;

struct ert_run;

struct ert_device {
  ert_driver driver;
  CUdevice number;
  CUcontext context; /* the primary one: shared with other sessions, and with other libraries */
  CUstream stream;   /* the session's own */
  CUstream present;  /* of the present run */
  CUstream last;     /* of the last run */
  CUevent ran;       /* recorded behind the last run */
  CUevent met;       /* recorded in a stream that another one waits for */
  bool pending;      /* the last run may still be going on */
  char name[96];
  int version; /* of the driver: 10020 */
  int sm;      /* 62 */
  int packed;  /* the program's */
  bool integrated;
  uint32_t most_threads, most_grid[3];
  ert_cache cache; /* of translated code */
  CUmodule *modules;
  uint32_t n_modules;
  ert_block *blocks;
  CUdeviceptr arena;
  struct ert_run *runs;
  uint32_t staged; /* `put`s and `get`s that use staging memory */
  bool stepwise;
  edgert_status status; /* of the present run; DEVICE_LOST stays */
  ert_text why;         /* what was lost, and in which step */
};

/* ---- context.c ---- */

/* The number of "sm_62"; fails as MALFORMED. */
edgert_status ert_device_packed(const char *device, int *out);

/* Makes the device's context current for the calling thread, and the one before again. */
edgert_status ert_device_enter(ert_device *device);
void ert_device_leave(ert_device *device);

/* ---- module.c ---- */

/* Loads all modules: machine code where the driver takes it, else translated PTX. */
edgert_status ert_modules_load(ert_device *device, const ert_device_request *request);
void ert_modules_unload(ert_device *device);

/* ---- memory.c ---- */

/* Memory of the device, filled with zeros; `what` names it in messages. It is freed with the device. */
edgert_status ert_device_allocate(ert_device *device, size_t bytes, const char *what, CUdeviceptr *out);

/* Memory of the host, and where kernels find what is in it; likewise. A device that shares the host's memory reads and
 * writes it in place; others have memory of their own for it, and it is copied (ert_device_copies). */
edgert_status ert_device_allocate_staging(ert_device *device, size_t bytes, const char *what, void **host,
                                          CUdeviceptr *out);
static inline bool ert_device_copies(const ert_device *device) { return !device->integrated; }

/* A copy of a constant in the device's memory, made once. */
edgert_status ert_device_upload(ert_device *device, const ert_tensor *constant, CUdeviceptr *out);

/* Memory of the host that copies to and from the device are fast with. */
edgert_status ert_device_pin(ert_device *device, size_t bytes, const char *what, void **out);

void ert_device_free_all(ert_device *device);

/* ---- run.c ---- */

void ert_runs_free(ert_device *device);

#endif
