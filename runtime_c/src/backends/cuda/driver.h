/* The CUDA driver, loaded when it is first needed; nothing is linked. */
#ifndef ERT_BACKENDS_CUDA_DRIVER_H
#define ERT_BACKENDS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUlinkState_st *CUlinkState;

/* Results that are told apart; all others are only named. */
enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_SUPPORTED = 801,
};

typedef struct ert_driver {
  void *library;
  const char *path; /* borrowed: what was loaded */
#define REQUIRED(name, parameters) CUresult(*name) parameters;
#define OPTIONAL                   REQUIRED /* NULL if the driver does not have it */
#include "backends/cuda/functions.def"
#undef OPTIONAL
#undef REQUIRED
} ert_driver;

/* Loads the driver library at `path`, or if that is NULL the one EDGERT_CUDA_LIBRARY names, or else libcuda.so.1, and
 * initialises it. With `emulator` it has to be the emulator. Close with ert_driver_close, whatever the outcome. */
edgert_status ert_driver_open(const char *path, bool emulator, ert_driver *out);
void ert_driver_close(ert_driver *driver);

/* Whether the caller or the environment names the library. */
const char *ert_driver_named(const char *path);

/* What a failed call means: DEVICE_LOST if nothing works any more in its context, OUT_OF_MEMORY, or DEVICE. */
edgert_status ert_driver_status(CUresult result);

/* Fails with that, naming the call, the driver's name of the error and what was being done. */
edgert_status ert_driver_fail(const ert_driver *driver, CUresult result, const char *call, const char *doing);

/* Calls a function of the driver; returns from the calling function if it fails. `doing` is evaluated only then. */
#define ERT_DRIVER_TRY(driver, doing, function, ...)                                                \
  do {                                                                                              \
    CUresult ert_result = (driver)->function(__VA_ARGS__);                                          \
    if (ert_result != CUDA_SUCCESS) return ert_driver_fail(driver, ert_result, #function, (doing)); \
  } while (0)

#endif
