/* The driver's objects, the lock around every call, and the queue of work.
 *
 * Work is done when somebody waits for it, not before: in the order in which it was given, which suits all streams. So a
 * program that forgets to wait sees stale data here too, and failures of kernels appear where a driver reports them. */
#ifndef EMU_DRIVER_DRIVER_H
#define EMU_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/device.h"
#include "base/export.h"
#include "base/memory.h"
#include "base/result.h"
#include "ptx/program.h"

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct emu_context *CUcontext;
typedef struct emu_module *CUmodule;
typedef struct emu_function *CUfunction;
typedef struct emu_stream *CUstream;
typedef struct emu_event *CUevent;
typedef struct emu_graph *CUgraph;
typedef struct emu_graph_exec *CUgraphExec;
typedef struct emu_link *CUlinkState;

typedef enum emu_kind { EMU_CONTEXT, EMU_MODULE, EMU_STREAM, EMU_EVENT, EMU_GRAPH, EMU_GRAPH_EXEC, EMU_LINK } emu_kind;

/* The head of every object; all live ones are in a list, so that a stale handle is found out. */
typedef struct emu_object {
  struct emu_object *next;
  emu_kind kind;
  struct emu_context *context; /* NULL: of none */
} emu_object;

/* A zeroed object; NULL without memory. */
void *emu_object_create(size_t bytes, emu_kind kind, struct emu_context *context);
bool emu_object_valid(const void *object, emu_kind kind);
/* Takes it from the list and frees it. */
void emu_object_destroy(void *object);
/* Any object of this kind and context; NULL if there is none. */
void *emu_object_any(emu_kind kind, const struct emu_context *context);

typedef enum emu_work_kind {
  WORK_KERNEL,
  WORK_COPY_TO_DEVICE,
  WORK_COPY_TO_HOST,
  WORK_COPY,
  WORK_FILL,
  WORK_RECORD,
  WORK_CALL
} emu_work_kind;

/* Something to be done on a stream. */
typedef struct emu_work {
  struct emu_work *next;
  emu_work_kind kind;
  struct emu_stream *stream;
  const ptx_function *function; /* NULL: its module was unloaded */
  uint32_t grid[3], threads[3], dynamic_shared;
  uint64_t to, from;
  void *host;
  size_t bytes; /* of data, too; of fills: elements */
  unsigned width;
  uint32_t value;
  struct emu_event *event;
  void (*call)(void *);
  uint8_t *data; /* owned: the parameters of a kernel, or pageable memory that was copied when it was given */
} emu_work;

typedef struct emu_list {
  emu_work *first, *last;
} emu_list;

bool emu_list_add(emu_list *list, const emu_work *work);
/* A copy with data of its own at the end of `to`. */
bool emu_list_copy(emu_list *to, const emu_list *from);
void emu_list_clear(emu_list *list);
/* Kernels of the module are forgotten. */
void emu_list_forget(emu_list *list, const struct emu_module *module);

struct emu_context {
  emu_object head;
  CUresult sticky; /* after a kernel failed nothing works until the context is destroyed */
  emu_list queue;
  bool primary;
  unsigned references; /* of the primary context */
};

struct emu_function {
  struct emu_function *next;
  struct emu_module *module;
  const ptx_function *f;
  uint32_t max_dynamic_shared;
};

struct emu_module {
  emu_object head;
  ptx_program program;
  struct emu_function *functions;
};

typedef struct emu_capture {
  struct emu_graph *graph;
  struct emu_stream *origin;
  bool invalid;
  bool global;      /* calls that might wait are refused meanwhile */
  unsigned streams; /* that joined and have not come back to the origin */
} emu_capture;

struct emu_stream {
  emu_object head;
  emu_capture *capture; /* NULL: work is queued; else it goes to the graph */
  bool forked;          /* has captured work that the origin does not wait for yet */
  size_t pending;       /* works of it in the queue */
};

struct emu_event {
  emu_object head;
  bool recorded, timed;
  size_t pending;       /* records in the queue */
  emu_capture *capture; /* that it was recorded in last */
  struct emu_stream *stream;
  uint64_t nanoseconds; /* when the record was reached */
};

struct emu_graph {
  emu_object head;
  emu_list work;
};

struct emu_graph_exec {
  emu_object head;
  emu_list work;
};

/* ---- around every call ---- */

typedef struct emu_call {
  CUresult result;
} emu_call;

/* Takes the lock, and gives the failure that the environment asks for (EDGERT_EMULATOR_FAIL), or that the library is not
 * initialised, or that the context has failed. */
emu_call emu_enter(const char *name, bool needs_context);
void emu_leave(emu_call *call);

/* A call of the driver; returns what it must fail with. */
#define EMU_CALL(name, needs_context)                                                          \
  __attribute__((cleanup(emu_leave))) emu_call emu_this_call = emu_enter(name, needs_context); \
  if (emu_this_call.result != CUDA_SUCCESS) return emu_this_call.result

void emu_initialised(void);
CUcontext emu_current(void);
void emu_set_current(CUcontext context);

/* Default streams, NULL and 1 (legacy) and 2 (per thread), are NULL; false for a handle that is none. */
bool emu_stream_of(CUstream *stream);

/* Queues work, or adds it to the capture of its stream. */
CUresult emu_submit(const emu_work *work);

/* Does all that is queued. Refused while a capture forbids waiting. */
CUresult emu_drain(CUcontext context);
/* Does the first work of the queue. */
CUresult emu_step(CUcontext context);

/* Refused, and the capture spoilt, if any global capture is on. */
CUresult emu_forbid_capture(void);

/* Loads a PTX text or an image of cuLinkComplete into a new module. */
CUresult emu_module_load(const void *image, size_t bytes, char message[512], CUmodule *module);

void emu_link_destroy(CUlinkState link);

/* Finishes a capture: its streams are free again. */
void emu_capture_end(emu_capture *capture);

#endif
