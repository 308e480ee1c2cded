/* Graphs: steps recorded once, and given to the device by one call. */
#include <inttypes.h>

#include "backends/cuda/run.h"

/* Of captures: what other threads do meanwhile, and what this one does on other streams, is none of its business. */
enum { RELAXED = 2 };

static ert_device *device_of(const ert_piece *piece) { return piece->steps[0]->device; }

ert_text ert_piece_text(const ert_piece *piece) {
  return ert_format("steps %" PRIu32 " to %" PRIu32, piece->steps[0]->step->index,
                    piece->steps[piece->n_steps - 1]->step->index);
}

static edgert_status submit_each(const ert_piece *piece, CUstream stream) {
  for (uint32_t i = 0; i < piece->n_steps; i++) ERT_TRY(ert_step_submit(piece->steps[i], stream));
  return EDGERT_OK;
}

static bool has_graphs(const ert_driver *driver) {
  return driver->cuStreamBeginCapture_v2 && driver->cuStreamEndCapture && driver->cuGraphLaunch &&
         driver->cuGraphDestroy && driver->cuGraphExecDestroy &&
         (driver->cuGraphInstantiateWithFlags || driver->cuGraphInstantiate);
}

/* The function of CUDA 11.4 and later where the driver has it, else the one that it replaced. */
static edgert_status instantiate(const ert_driver *driver, CUgraph graph, const char *what, CUgraphExec *out) {
  if (driver->cuGraphInstantiateWithFlags) {
    CUresult result = driver->cuGraphInstantiateWithFlags(out, graph, 0);
    if (result == CUDA_SUCCESS) return EDGERT_OK;
    *out = NULL;
    if (result != CUDA_ERROR_NOT_SUPPORTED || !driver->cuGraphInstantiate)
      return ert_driver_fail(driver, result, "cuGraphInstantiateWithFlags", what);
  }
  CUresult result = driver->cuGraphInstantiate(out, graph, NULL, NULL, 0);
  if (result == CUDA_SUCCESS) return EDGERT_OK;
  *out = NULL;
  return ert_driver_fail(driver, result, "cuGraphInstantiate", what);
}

edgert_status ert_piece_capture(ert_piece *piece) {
  const ert_driver *driver = &device_of(piece)->driver;
  CUstream stream = device_of(piece)->stream;
  ert_text what = ert_format("graph of %s", ert_piece_text(piece).s);
  if (!has_graphs(driver)) return EDGERT_OK;
  CUresult result = driver->cuStreamBeginCapture_v2(stream, RELAXED);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return EDGERT_OK;
  if (result != CUDA_SUCCESS) return ert_driver_fail(driver, result, "cuStreamBeginCapture_v2", what.s);
  CUgraph graph = NULL;
  edgert_status status = submit_each(piece, stream);
  result = driver->cuStreamEndCapture(stream, &graph);
  if (status == EDGERT_OK && result != CUDA_SUCCESS)
    status = ert_driver_fail(driver, result, "cuStreamEndCapture", what.s);
  if (status == EDGERT_OK) status = instantiate(driver, graph, what.s, &piece->graph);
  if (graph) (void)driver->cuGraphDestroy(graph);
  return status;
}

edgert_status ert_piece_submit(const ert_piece *piece, CUstream stream) {
  if (!piece->graph) return submit_each(piece, stream);
  ERT_DRIVER_TRY(&device_of(piece)->driver, ert_piece_text(piece).s, cuGraphLaunch, piece->graph, stream);
  return EDGERT_OK;
}

void ert_piece_free(ert_piece *piece) {
  if (piece->graph) (void)device_of(piece)->driver.cuGraphExecDestroy(piece->graph);
  piece->graph = NULL;
}
