/* edgert: open a bundle of compiled neural networks and run it. The whole public C API.
 *
 *   edgert_bundle *bundle;
 *   edgert_session *session;
 *   if (edgert_bundle_open("model.edge", NULL, &bundle) || edgert_session_open(bundle, NULL, &session))
 *     return fprintf(stderr, "%s\n", edgert_last_error()), 1;
 *   edgert_session_bind_input(session, 0, pixels, sizeof pixels);
 *   edgert_session_bind_output(session, 0, scores, sizeof scores);
 *   while (next_frame(pixels)) edgert_session_run(session);
 *
 * Calls return EDGERT_OK (0) or an error; edgert_last_error() then says what, where, expected, got and what to do. A NULL
 * where an object or a result belongs is an invalid argument; counts are 0 then, and closing it does nothing. Objects are not
 * thread-safe by themselves: use one session per thread, over one shared bundle. */
#ifndef EDGERT_EDGERT_H
#define EDGERT_EDGERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EDGERT_API_VERSION 1

#if defined(EDGERT_BUILD)
#define EDGERT_API __attribute__((visibility("default")))
#else
#define EDGERT_API
#endif

typedef enum edgert_status {
  EDGERT_OK = 0,
#define X(number, name, id, sentence, hint) EDGERT_ERROR_##name = number,
#include "edgert/errors.def"
#undef X
} edgert_status;

/* Element types; the numbers are those of the bundle format. BOOL is one byte, 0 or 1. */
typedef enum edgert_dtype {
  EDGERT_F32 = 1,
  EDGERT_U8 = 2,
  EDGERT_I8 = 3,
  EDGERT_U16 = 4,
  EDGERT_I16 = 5,
  EDGERT_I32 = 6,
  EDGERT_I64 = 7,
  EDGERT_U32 = 8,
  EDGERT_U64 = 9,
  EDGERT_BOOL = 10,
  EDGERT_F16 = 11, /* of weights only */
  EDGERT_BF16 = 12,
} edgert_dtype;

enum { EDGERT_MAX_RANK = 8 };

/* A bundle: a verified mapping of a file, or of the caller's memory. Immutable; may be shared by threads. */
typedef struct edgert_bundle edgert_bundle;
/* A program of a bundle made ready to run: arena, bindings, worker threads. */
typedef struct edgert_session edgert_session;

/* What is hashed before use. Structure and ranges are always proven before they matter. */
typedef enum edgert_integrity {
  EDGERT_INTEGRITY_FULL = 0,     /* metadata and every byte of every segment */
  EDGERT_INTEGRITY_METADATA = 1, /* metadata only: opening touches no weight page, and proves a
                                  * program when a session chooses it or edgert_bundle_program asks */
} edgert_integrity;

/* Options; zero-initialise, then set struct_size = sizeof and what differs from the default. NULL means all defaults. */
typedef struct edgert_open_options {
  size_t struct_size;
  edgert_integrity integrity;
  uint32_t threads; /* for hashing; 0: one per usable core */
} edgert_open_options;

/* Called while a session is opened that has code for a device, `done` of `total` modules of which are loaded; translating one
 * may take seconds. */
typedef void (*edgert_progress_hook)(void *user, uint32_t done, uint32_t total);

typedef struct edgert_session_options {
  size_t struct_size;
  const char *target; /* whose programs to use; NULL: the first one this machine can run */
  uint32_t threads;   /* at most, the calling one included; 0: one per usable core. It chooses the program for the most
                       * cores that are not more, or if all are for more, the one for the fewest. */
  const char *isa;    /* force one that edgert_isa gives; NULL: the best here */
  /* Of programs with a device. Its code comes from the bundle and cannot be proven harmless: */
  uint32_t allow_native; /* 1: it may run; else such programs are left out, or fail with EDGERT_ERROR_NATIVE_CODE */
  uint32_t emulate;      /* 1: programs for other processors, too, on the emulator, which `cuda_library` has to name; it
                     * interprets and checks their code, so nobody has to allow it */
  const char *cuda_library; /* the driver; NULL: what the environment's EDGERT_CUDA_LIBRARY names, else libcuda.so.1 */
  /* Folder for code that the driver has translated, for later sessions. "": none. NULL: the one that EDGERT_CACHE_DIR
   * names, else edgert/driver in XDG_CACHE_HOME or ~/.cache. It may be removed at any time. */
  const char *code_cache;
  edgert_progress_hook progress; /* NULL: nobody is told */
  void *progress_user;
} edgert_session_options;

typedef struct edgert_tensor_info {
  const char *name; /* borrowed from the bundle */
  edgert_dtype dtype;
  uint32_t rank;
  int64_t shape[EDGERT_MAX_RANK]; /* elements; row-major */
  size_t bytes;
  uint32_t dynamic; /* 1: the shape is an upper bound; after a run see edgert_session_output_shape */
} edgert_tensor_info;

typedef struct edgert_bundle_info {
  const char *model;    /* name of the ONNX graph; borrowed from the bundle, like the next */
  const char *producer; /* name and version of the packer */
  uint64_t bytes;       /* of the whole file */
  uint32_t segments;
  uint64_t segment_bytes; /* of all segments: weights and golden samples */
  uint32_t goldens;       /* golden samples */
} edgert_bundle_info;

typedef struct edgert_program_info {
  const char *target; /* borrowed from the bundle */
  const char *arch;   /* machine it needs: "x86_64", "aarch64" */
  const char *device; /* that it needs beside: "sm_62"; "": none */
  uint32_t cores;     /* that it is made for: more threads are of no use to it */
  uint32_t steps;
  uint64_t arena_bytes;   /* memory for intermediate tensors */
  uint64_t device_bytes;  /* the same of the device */
  uint32_t device_steps;  /* of the steps, those that run on the device, copies there and back included */
  uint32_t modules;       /* of code for the device */
  uint64_t cubin_bytes;   /* of their machine code */
  uint64_t ptx_bytes;     /* of their PTX, as it is stored */
  edgert_status runnable; /* EDGERT_OK, or why not on this machine; consent to native code is taken for granted */
} edgert_program_info;

typedef struct edgert_session_info {
  const char *target;
  const char *isa;
  const char *device; /* its name, "NVIDIA Tegra X2"; "": none is used */
  uint32_t cores;     /* that the program is made for */
  uint32_t threads;   /* that run it, at most as many */
  uint32_t steps;
  uint32_t slow_steps; /* of them, those that would make instructions, but cannot: no AVX-512, or no memory for that */
  uint64_t arena_bytes;
  uint64_t scratch_bytes;
  uint64_t device_bytes; /* arena on the device */
  int32_t device_number; /* of it for the driver; -1: none is used */
  void *stream;          /* CUstream on which edgert_session_run works; NULL: none */
} edgert_session_info;

/* When an output counts as right: |got - want| <= atol + rtol * max |want|, the maximum over the output; integers: equal. */
typedef struct edgert_golden_info {
  float atol;
  float rtol;
} edgert_golden_info;

/* Of a step event: every core ran a share of the step. */
#define EDGERT_ALL_CORES 255

/* One executed step. `node` is the name of the (first) ONNX node it stands for. Times: monotonic clock, nanoseconds; of a
 * step that all cores shared, from the first begin to the last end. */
typedef struct edgert_step_event {
  uint32_t step;
  uint32_t core; /* of the program, or EDGERT_ALL_CORES; core c is on thread c modulo edgert_session_info.threads */
  const char *kernel;
  const char *node;
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t busy_ns; /* in the step, of all threads together */
} edgert_step_event;

typedef void (*edgert_profile_hook)(void *user, const edgert_step_event *event);

/* The version of the library, "major.minor.patch". */
EDGERT_API const char *edgert_version(void);

/* The message of the last failed call of this thread: at most four lines, "" if none. Valid until the thread's next call. */
EDGERT_API const char *edgert_last_error(void);

/* The textual id of a status, such as "corrupt"; "ok" for EDGERT_OK. */
EDGERT_API const char *edgert_status_id(edgert_status status);

/* Instruction sets usable on this machine, best first; NULL past the last. edgert_isa(0) is what sessions use by default. */
EDGERT_API const char *edgert_isa(uint32_t index);

/* Cores this process may use (affinity mask and cgroup limit). */
EDGERT_API uint32_t edgert_cores(void);

/* Maps the file at `path` and verifies it. *out is NULL on failure. Close with edgert_bundle_close. */
EDGERT_API edgert_status edgert_bundle_open(const char *path, const edgert_open_options *options, edgert_bundle **out);

/* The same over `bytes` bytes at `data`, 64-byte aligned, borrowed: they must stay unchanged until the bundle is closed. */
EDGERT_API edgert_status edgert_bundle_open_memory(const void *data, size_t bytes, const edgert_open_options *options,
                                                   edgert_bundle **out);

/* Close after every session over it is closed. NULL is allowed. */
EDGERT_API void edgert_bundle_close(edgert_bundle *bundle);

EDGERT_API edgert_status edgert_bundle_describe(const edgert_bundle *bundle, edgert_bundle_info *out);
EDGERT_API uint32_t edgert_bundle_program_count(const edgert_bundle *bundle);
EDGERT_API edgert_status edgert_bundle_program(const edgert_bundle *bundle, uint32_t index, edgert_program_info *out);

/* Chooses a program, allocates its arena and starts its threads. `bundle` is borrowed and must outlive the session.
 *
 * The program's cores are dealt to the threads; core 0 is on the thread that calls edgert_session_run. Where a program is
 * made for cores of unequal speed, and the machine has CPUs of unequal capacity, the started threads stay on the CPUs that
 * match; the calling thread is the caller's to place (core 0 is the fastest). Else nothing is pinned. */
EDGERT_API edgert_status edgert_session_open(const edgert_bundle *bundle, const edgert_session_options *options,
                                             edgert_session **out);
EDGERT_API void edgert_session_close(edgert_session *session);

EDGERT_API edgert_status edgert_session_describe(const edgert_session *session, edgert_session_info *out);
EDGERT_API uint32_t edgert_session_input_count(const edgert_session *session);
EDGERT_API uint32_t edgert_session_output_count(const edgert_session *session);
EDGERT_API edgert_status edgert_session_input(const edgert_session *session, uint32_t index, edgert_tensor_info *out);
EDGERT_API edgert_status edgert_session_output(const edgert_session *session, uint32_t index, edgert_tensor_info *out);

/* The caller's buffers, borrowed until bound anew or the session is closed; aligned to the element. `bytes` must be the
 * tensor's exact size. Nothing is copied: kernels read and write there. Buffers must not overlap, except inputs among inputs. */
EDGERT_API edgert_status edgert_session_bind_input(edgert_session *session, uint32_t index, const void *data,
                                                   size_t bytes);
EDGERT_API edgert_status edgert_session_bind_output(edgert_session *session, uint32_t index, void *data, size_t bytes);

/* Runs the network once on the bound buffers. Allocates nothing; the same inputs give the same bits. */
EDGERT_API edgert_status edgert_session_run(edgert_session *session);

/* The same in memory of the session's device: `data` is an address there, a multiple of 16. Steps on the device read and write
 * it in place; it is copied if the processor's do, too. A session without a device refuses them. */
EDGERT_API edgert_status edgert_session_bind_device_input(edgert_session *session, uint32_t index, const void *data,
                                                          size_t bytes);
EDGERT_API edgert_status edgert_session_bind_device_output(edgert_session *session, uint32_t index, void *data,
                                                           size_t bytes);

/* Gives the network to `stream`, a CUstream of the primary context of the session's device (NULL: the default stream), in
 * order with what that has been given before and will be given; outputs in memory of the device are there when it has come
 * so far, all others on return. With buffers on the device only, and no steps on the processor, nothing is waited for:
 *
 *   edgert_session_bind_device_input(session, 0, frame, bytes);
 *   edgert_session_bind_device_output(session, 0, scores, sizeof scores);
 *   preprocess<<<blocks, threads, 0, stream>>>(frame);
 *   edgert_session_run_async(session, stream);
 *   decide<<<1, threads, 0, stream>>>(scores);
 *
 * A kernel that fails then is an error of a later call. Runs of one session follow each other on all streams. The stream must
 * not be capturing. */
EDGERT_API edgert_status edgert_session_run_async(edgert_session *session, void *stream);

/* Makes what the stream `after` is given from now on wait for all that the stream `before` has been given; returns at once. */
EDGERT_API edgert_status edgert_session_order(edgert_session *session, void *before, void *after);

/* The shape of an output after the last run: edgert_session_output's, except where its size depends on data (detections). */
EDGERT_API edgert_status edgert_session_output_shape(const edgert_session *session, uint32_t index, int64_t *shape);

/* The bundle's golden samples, for self-tests: inputs, and outputs that its programs must answer to them. A sample that does
 * not belong to the session's inputs and outputs is malformed. `sample` is below edgert_bundle_info.goldens. */
EDGERT_API edgert_status edgert_session_golden(const edgert_session *session, uint32_t sample, edgert_golden_info *out);

/* What a sample holds for an input or output: row-major elements, borrowed from the bundle, hashed first unless that was done
 * when it was opened. Of an output whose size depends on data it is the meaningful part only. *data is NULL for an output
 * that the sample leaves open. */
EDGERT_API edgert_status edgert_session_golden_input(const edgert_session *session, uint32_t sample, uint32_t index,
                                                     const void **data, size_t *bytes);
EDGERT_API edgert_status edgert_session_golden_output(const edgert_session *session, uint32_t sample, uint32_t index,
                                                      const void **data, size_t *bytes);

/* After every run, calls `hook` for every step in the order of the program, on the calling thread; NULL ends it. The hook
 * must not use the session. Setting it allocates, runs do not. */
EDGERT_API edgert_status edgert_session_profile(edgert_session *session, edgert_profile_hook hook, void *user);

#ifdef __cplusplus
}
#endif
#endif
