/* Streams and events. */
#include <stdlib.h>

#include "driver/driver.h"

EMU_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  EMU_CALL("cuStreamCreate", true);
  if (!stream || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  *stream = emu_object_create(sizeof **stream, EMU_STREAM, emu_current());
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  (void)priority;
  return cuStreamCreate(stream, flags);
}

/* Work of the stream, and all that was given before it. */
static CUresult wait_for(CUstream stream) {
  if (stream && stream->capture) {
    stream->capture->invalid = true;
    return emu_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "waiting for a stream that captures");
  }
  return emu_drain(emu_current());
}

EMU_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  EMU_CALL("cuStreamDestroy_v2", true);
  if (!emu_object_valid(stream, EMU_STREAM)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    emu_capture *c = stream->capture;
    if (stream == c->origin)
      emu_capture_end(c);
    else
      c->invalid = true;
  }
  CUresult result = emu_drain(emu_current());
  emu_object_destroy(stream);
  return result;
}

EMU_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  EMU_CALL("cuStreamSynchronize", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  return wait_for(stream);
}

/* Each question does one piece of work, so that who asks again and again sees the end. */
EMU_EXPORT CUresult cuStreamQuery(CUstream stream) {
  EMU_CALL("cuStreamQuery", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream && stream->capture) return wait_for(stream);
  CUcontext c = emu_current();
  if (stream ? stream->pending == 0 : c->queue.first == NULL) return CUDA_SUCCESS;
  EMU_TRY(emu_step(c));
  return CUDA_ERROR_NOT_READY;
}

EMU_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  EMU_CALL("cuStreamGetCtx", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = stream ? stream->head.context : emu_current();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*call)(void *), void *argument) {
  EMU_CALL("cuLaunchHostFunc", true);
  if (!emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!call) return CUDA_ERROR_INVALID_VALUE;
  return emu_submit(&(emu_work){.kind = WORK_CALL, .stream = stream, .call = call, .host = argument});
}

/* A captured event brings its capture to a stream that waits for it; waiting in the origin brings streams back. */
static CUresult wait_captured(CUstream stream, CUevent event) {
  emu_capture *c = event->capture;
  if (!stream) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  if (!stream->capture) {
    stream->capture = c;
    c->streams++;
  } else if (stream->capture != c) {
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream == c->origin && event->stream && event->stream != stream) event->stream->forked = false;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  EMU_CALL("cuStreamWaitEvent", true);
  (void)flags;
  if (!emu_stream_of(&stream) || !emu_object_valid(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture) return wait_captured(stream, event);
  if (stream && stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  return CUDA_SUCCESS; /* the queue keeps the order in which work was given */
}

EMU_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  EMU_CALL("cuEventCreate", true);
  enum { DISABLE_TIMING = 2 };
  if (!event || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  *event = emu_object_create(sizeof **event, EMU_EVENT, emu_current());
  if (!*event) return CUDA_ERROR_OUT_OF_MEMORY;
  (*event)->timed = !(flags & DISABLE_TIMING);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  EMU_CALL("cuEventDestroy_v2", true);
  if (!emu_object_valid(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = event->pending ? emu_drain(emu_current()) : CUDA_SUCCESS;
  emu_object_destroy(event);
  return result;
}

EMU_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  EMU_CALL("cuEventRecord", true);
  if (!emu_object_valid(event, EMU_EVENT) || !emu_stream_of(&stream)) return CUDA_ERROR_INVALID_HANDLE;
  event->stream = stream;
  event->capture = stream ? stream->capture : NULL;
  if (event->capture) return event->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  event->recorded = true;
  return emu_submit(&(emu_work){.kind = WORK_RECORD, .stream = stream, .event = event});
}

EMU_EXPORT CUresult cuEventSynchronize(CUevent event) {
  EMU_CALL("cuEventSynchronize", true);
  if (!emu_object_valid(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  while (event->pending) EMU_TRY(emu_step(emu_current()));
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuEventQuery(CUevent event) {
  EMU_CALL("cuEventQuery", true);
  if (!emu_object_valid(event, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (!event->pending) return CUDA_SUCCESS;
  EMU_TRY(emu_step(emu_current()));
  return CUDA_ERROR_NOT_READY;
}

EMU_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  EMU_CALL("cuEventElapsedTime", true);
  if (!emu_object_valid(begin, EMU_EVENT) || !emu_object_valid(end, EMU_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!begin->timed || !end->timed || !begin->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (begin->pending || end->pending) return CUDA_ERROR_NOT_READY;
  *milliseconds = (float)((double)((int64_t)(end->nanoseconds - begin->nanoseconds)) * 1e-6);
  return CUDA_SUCCESS;
}
