/* The queue of a context: submitting, and doing. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/driver.h"
#include "execute/launch.h"

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool emu_stream_of(CUstream *stream) {
  if ((uintptr_t)*stream <= 2) {
    *stream = NULL;
    return true;
  }
  return emu_object_valid(*stream, EMU_STREAM);
}

CUresult emu_submit(const emu_work *work) {
  CUstream s = work->stream;
  emu_list *list = &emu_current()->queue;
  if (s && s->capture) {
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    list = &s->capture->graph->work;
    s->forked = s != s->capture->origin;
  } else if (!s) {
    EMU_TRY(emu_forbid_capture()); /* the default stream waits for the others */
  }
  if (!emu_list_add(list, work)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (list != &emu_current()->queue) return CUDA_SUCCESS;
  if (s) s->pending++;
  if (work->event) work->event->pending++;
  return CUDA_SUCCESS;
}

static CUresult perform(const emu_work *w) {
  switch (w->kind) {
    case WORK_KERNEL:
      return emu_launch_run(w->function, w->grid, w->threads, w->dynamic_shared, w->data);
    case WORK_COPY_TO_DEVICE:
      return emu_memory_write(w->to, w->data ? w->data : w->host, w->bytes);
    case WORK_COPY_TO_HOST:
      return emu_memory_read(w->host, w->from, w->bytes);
    case WORK_COPY:
      return emu_memory_copy(w->to, w->from, w->bytes);
    case WORK_FILL:
      return emu_memory_fill(w->to, w->value, w->width, w->bytes);
    case WORK_CALL:
      w->call(w->host);
      return CUDA_SUCCESS;
    default:
      return CUDA_SUCCESS;
  }
}

CUresult emu_step(CUcontext context) {
  emu_work *w = context->queue.first;
  if (!w) return CUDA_SUCCESS;
  context->queue.first = w->next;
  if (!w->next) context->queue.last = NULL;
  CUresult result = context->sticky ? context->sticky : perform(w);
  if (w->stream) w->stream->pending--;
  if (w->event && --w->event->pending == 0) w->event->nanoseconds = now();
  free(w->data);
  free(w);
  if (result != CUDA_SUCCESS) context->sticky = result;
  return result;
}

CUresult emu_drain(CUcontext context) {
  while (context->queue.first) emu_step(context);
  return context->sticky;
}

CUresult emu_forbid_capture(void) {
  for (const emu_object *o = emu_object_any(EMU_STREAM, emu_current()); o; o = o->next) {
    if (o->kind != EMU_STREAM || o->context != emu_current()) continue;
    emu_capture *c = ((CUstream)(uintptr_t)o)->capture;
    if (!c || !c->global) continue;
    c->invalid = true;
    return emu_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a call that waits while a stream captures");
  }
  return CUDA_SUCCESS;
}
