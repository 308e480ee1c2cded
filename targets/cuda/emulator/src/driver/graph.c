/* Graphs: captured work in its order, to be queued again. */
#include <stdlib.h>

#include "driver/driver.h"

EMU_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  EMU_CALL("cuStreamBeginCapture_v2", true);
  enum { GLOBAL = 0, RELAXED = 2 };
  if (emu_settings_get()->device.driver < 10010) return CUDA_ERROR_NOT_SUPPORTED;
  if (mode < GLOBAL || mode > RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  emu_capture *c = calloc(1, sizeof *c);
  CUgraph g = emu_object_create(sizeof *g, EMU_GRAPH, emu_current());
  if (!c || !g) {
    free(c);
    if (g) emu_object_destroy(g);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *c = (emu_capture){.graph = g, .origin = stream, .global = mode != RELAXED};
  stream->capture = c;
  return CUDA_SUCCESS;
}

void emu_capture_end(emu_capture *c) {
  for (emu_object *o = emu_object_any(EMU_STREAM, c->origin->head.context); o; o = o->next) {
    if (o->kind == EMU_STREAM && ((CUstream)(uintptr_t)o)->capture == c) {
      ((CUstream)(uintptr_t)o)->capture = NULL;
      ((CUstream)(uintptr_t)o)->forked = false;
    }
  }
  for (emu_object *o = emu_object_any(EMU_EVENT, c->origin->head.context); o; o = o->next)
    if (o->kind == EMU_EVENT && ((CUevent)(uintptr_t)o)->capture == c) ((CUevent)(uintptr_t)o)->capture = NULL;
  if (c->graph) {
    emu_list_clear(&c->graph->work);
    emu_object_destroy(c->graph);
  }
  free(c);
}

static bool unjoined(const emu_capture *c) {
  for (const emu_object *o = emu_object_any(EMU_STREAM, c->origin->head.context); o; o = o->next)
    if (o->kind == EMU_STREAM && ((CUstream)(uintptr_t)o)->capture == c && ((CUstream)(uintptr_t)o)->forked)
      return true;
  return false;
}

EMU_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  EMU_CALL("cuStreamEndCapture", true);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *graph = NULL;
  if (!emu_stream_of(&stream) || !stream) return CUDA_ERROR_INVALID_HANDLE;
  emu_capture *c = stream->capture;
  if (!c) return CUDA_ERROR_ILLEGAL_STATE;
  if (c->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  CUresult result = c->invalid    ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                    : unjoined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                  : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) {
    *graph = c->graph;
    c->graph = NULL;
  }
  emu_capture_end(c);
  return result;
}

EMU_EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  EMU_CALL("cuStreamIsCapturing", true);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  *status = !stream || !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph) {
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (!emu_object_valid(graph, EMU_GRAPH)) return CUDA_ERROR_INVALID_HANDLE;
  CUgraphExec e = emu_object_create(sizeof *e, EMU_GRAPH_EXEC, emu_current());
  if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!emu_list_copy(&e->work, &graph->work)) {
    emu_list_clear(&e->work);
    emu_object_destroy(e);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *exec = e;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  EMU_CALL("cuGraphInstantiateWithFlags", true);
  (void)flags;
  if (emu_settings_get()->device.driver < 11040) return CUDA_ERROR_NOT_SUPPORTED;
  return instantiate(exec, graph);
}

/* Of CUDA 10 and 11. */
EMU_EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, void **node, char *log, size_t bytes) {
  EMU_CALL("cuGraphInstantiate", true);
  if (node) *node = NULL;
  if (log && bytes) log[0] = '\0';
  return instantiate(exec, graph);
}

EMU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, void **node, char *log, size_t bytes) {
  return cuGraphInstantiate(exec, graph, node, log, bytes);
}

EMU_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  EMU_CALL("cuGraphLaunch", true);
  if (!emu_object_valid(exec, EMU_GRAPH_EXEC) || !emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  for (const emu_work *w = exec->work.first; w; w = w->next)
    if (w->kind == WORK_KERNEL && !w->function)
      return emu_fail(CUDA_ERROR_INVALID_HANDLE, "a kernel of the graph was unloaded");
  emu_list copy = {NULL, NULL};
  if (!emu_list_copy(&copy, &exec->work)) {
    emu_list_clear(&copy);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult result = CUDA_SUCCESS;
  for (emu_work *w = copy.first, *next; w; w = next) {
    next = w->next;
    w->stream = stream;
    w->event = NULL;
    if (result == CUDA_SUCCESS) result = emu_submit(w);
    if (result != CUDA_SUCCESS) free(w->data);
    free(w);
  }
  return result;
}

EMU_EXPORT CUresult cuGraphGetNodes(CUgraph graph, void **nodes, size_t *count) {
  EMU_CALL("cuGraphGetNodes", true);
  if (!emu_object_valid(graph, EMU_GRAPH)) return CUDA_ERROR_INVALID_HANDLE;
  if (nodes || !count) return CUDA_ERROR_NOT_SUPPORTED; /* the number of nodes only */
  *count = 0;
  for (const emu_work *w = graph->work.first; w; w = w->next) ++*count;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  EMU_CALL("cuGraphDestroy", true);
  if (!emu_object_valid(graph, EMU_GRAPH)) return CUDA_ERROR_INVALID_HANDLE;
  emu_list_clear(&graph->work);
  emu_object_destroy(graph);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  EMU_CALL("cuGraphExecDestroy", true);
  if (!emu_object_valid(exec, EMU_GRAPH_EXEC)) return CUDA_ERROR_INVALID_HANDLE;
  emu_list_clear(&exec->work);
  emu_object_destroy(exec);
  return CUDA_SUCCESS;
}
