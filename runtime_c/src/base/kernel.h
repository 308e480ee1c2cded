/* What a kernel is: a step's operands proven once by `prepare`, then run in independent tasks. */
#ifndef ERT_BASE_KERNEL_H
#define ERT_BASE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { ERT_MAX_RANK = 8 };

/* Numbers of the bundle format, equal to packer.ir.DType; the public enum edgert_dtype has the same ones. */
typedef enum ert_layout {
  ERT_LAYOUT_PLANAR = 0,  /* row-major */
  ERT_LAYOUT_BLOCK16 = 1, /* [N,C,...] as [N, ceil(C/16), ..., 16]; rank 1: [ceil(C/16), 16] */
  ERT_LAYOUT_WEIGHT16 =
      2, /* [group,K,C,kernel...] as [group, ceil(K/16), C blocks of <= 16, kernel..., c in block, 16] */
  ERT_LAYOUT_DEPTH16 = 3, /* [C,kernel...] as [ceil(C/16), kernel..., 16] */
  ERT_LAYOUT_PLANES = 4,  /* row-major in a device's memory; [N,C,H,W] perhaps with a halo around each plane */
} ert_layout;

/* A tensor of a program. Shape is logical whatever the layout. `data` is set at session creation, or by binding.
 *
 * A view is a box of another tensor: `data` points to its first element, and `whole`, the other tensor's shape, gives
 * the strides (ert_stride). In a blocked layout the box begins at a block, and ends at one or at the tensor's end.
 *
 * In layout planes `data` is an address of a device, that of the first plane with its halo. */
typedef struct ert_tensor {
  void *data;
  const char *name; /* borrowed from the bundle */
  size_t bytes;     /* stored size of `shape` in `layout` without gaps, padding lanes included */
  int64_t elements; /* product of shape */
  int64_t shape[ERT_MAX_RANK];
  int64_t whole[ERT_MAX_RANK]; /* shape of the tensor it is a view of; its own if it is none */
  uint32_t halo[4];            /* zeros above, left, below and right of each plane; of layout planes */
  uint8_t rank;
  uint8_t dtype;  /* edgert_dtype */
  uint8_t layout; /* ert_layout */
  bool constant;  /* lies in a segment: its data may be read by prepare */
  bool compact;   /* no gaps: true unless it is a view that leaves some */
  bool device;    /* in the memory of a device: data is an address there, of no use to the host */
} ert_tensor;

/* A named attribute, borrowed from the verified bundle. */
typedef struct ert_attribute {
  const char *name;
  const int64_t *ints;
  const float *floats;
  const char *text; /* "" if absent */
  uint32_t n_ints;
  uint32_t n_floats;
} ert_attribute;

struct ert_device;
struct ert_kernel;
struct ert_room;
struct ert_simd;

/* A step of a program. Absent optional inputs are NULL. */
typedef struct ert_step {
  const struct ert_kernel *kernel;
  const ert_tensor *const *in;
  ert_tensor *const *out;
  const ert_attribute *attributes;
  uint32_t n_in, n_out, n_attributes;
  uint32_t index;       /* position in the program, for messages */
  const char *node;     /* name of the first ONNX node, for messages */
  void *state;          /* in the session's room; what prepare computed for run */
  size_t scratch_bytes; /* 0 until prepare sets it: scratch one task needs, 64-byte aligned when run is called */
  int64_t tasks;        /* 0 until prepare sets it: number of independent tasks; 0: there is nothing to run */
  int64_t rounds;       /* 0 until prepare sets it; else equal parts of the tasks, each after all of the one before */
  size_t code_bytes;    /* 0 until prepare sets it: memory that one task writes instructions to and runs them from */
  ptrdiff_t code,
      executable;    /* where that is, from scratch, and how far from there it can be executed; 0: there is none */
  size_t made_bytes; /* 0 until prepare sets it: memory for instructions that prove makes once, a multiple of 64 */
  uint8_t *made;     /* NULL until prove: that memory, with which tasks want none of their own */
} ert_step;

/* Tasks that are independent of each other: those of a round, or all. */
static inline int64_t ert_round_tasks(const ert_step *step) {
  return step->rounds > 0 ? step->tasks / step->rounds : step->tasks;
}

/* What prepare may use. */
typedef struct ert_prepare {
  ert_step *step;
  struct ert_room *room;       /* where its state goes */
  const struct ert_simd *simd; /* kernels of the instruction set chosen at load */
  struct ert_device *device;   /* the program's (backends); NULL: it has none */
  uint32_t workers;            /* threads that will run the tasks */
  uint32_t in_place;           /* set by ert_allow_in_place: bit i for input i */
} ert_prepare;

typedef struct ert_kernel {
  const char *name;
  /* Proves every operand and attribute, so that run cannot touch memory outside its tensors for any input values.
   * Sets step->tasks and step->scratch_bytes, step->rounds only where workers > 1, and step->state through ert_state.
   * Errors through ert_reject. What it need not prove: outputs overlap no other operand, but for those that
   * ert_allow_in_place names. */
  edgert_status (*prepare)(ert_prepare *p);
  /* NULL, or the rest of the proof: what reads all of a large constant; then it makes instructions, if there is memory for
   * them. Of all else it changes nothing but the step's own state. */
  edgert_status (*prove)(const ert_prepare *p);
  /* Executes tasks [begin, end), in order. Those of a round write disjoint parts of the outputs and give the same bits in
   * any partition. */
  void (*run)(const ert_step *step, int64_t begin, int64_t end, void *scratch);
  bool views;     /* takes operands that are not compact; the session refuses them for other kernels */
  bool reduced;   /* takes operands in f16 or bf16; likewise */
  bool generates; /* several times faster with memory for instructions, and an instruction set that makes them */
  bool device;    /* runs on the program's device, and takes operands in its memory; likewise */
} ert_kernel;

/* All kernels, by name; NULL if there is none. */
const ert_kernel *ert_kernel_find(const char *name);

/* What prepare has left to be proven; only then the step may run. Of `p` the step and `simd` count. */
static inline edgert_status ert_prove(const ert_prepare *p) {
  return p->step->state && p->step->kernel->prove ? p->step->kernel->prove(p) : EDGERT_OK;
}

/* ---- helpers for prepare (base/prepare.c) ---- */

/* Zeroed memory of `bytes` that lives as long as the room, stored in step->state. */
edgert_status ert_state(ert_prepare *p, size_t bytes, void **out);

/* The first output may lie exactly over this input, if that has its element type, layout and size. */
static inline void ert_allow_in_place(ert_prepare *p, uint32_t input) { p->in_place |= 1u << input; }

/* Fails the step with BAD_STEP: what ("weight shape"), expected and got are sentences or printf formats. */
edgert_status ert_reject(const ert_prepare *p, const char *what, const char *expected, const char *got, ...)
    __attribute__((format(printf, 4, 5), cold));

/* Operand counts; optional trailing inputs lie between min and max. Checks that present ones are non-NULL up to min. */
edgert_status ert_expect_operands(const ert_prepare *p, uint32_t min_in, uint32_t max_in, uint32_t min_out,
                                  uint32_t max_out);
edgert_status ert_expect_dtype(const ert_prepare *p, const ert_tensor *t, edgert_dtype dtype);
edgert_status ert_expect_layout(const ert_prepare *p, const ert_tensor *t, ert_layout layout);
/* Every operand planar, for kernels that know no other layout. */
edgert_status ert_expect_planar(const ert_prepare *p);
edgert_status ert_expect_shape(const ert_prepare *p, const ert_tensor *t, uint32_t rank, const int64_t *shape);
edgert_status ert_expect_same_type(const ert_prepare *p, const ert_tensor *a,
                                   const ert_tensor *b); /* dtype, shape and layout */

/* Attributes. The required forms fail when absent; the _or forms give the default. Ranges are inclusive. */
const ert_attribute *ert_attribute_find(const ert_prepare *p, const char *name);
edgert_status ert_int(const ert_prepare *p, const char *name, int64_t lo, int64_t hi, int64_t *out);
edgert_status ert_int_or(const ert_prepare *p, const char *name, int64_t lo, int64_t hi, int64_t fallback,
                         int64_t *out);
/* Exactly `count` integers, each within [lo, hi]; borrowed. */
edgert_status ert_ints(const ert_prepare *p, const char *name, uint32_t count, int64_t lo, int64_t hi,
                       const int64_t **out);
edgert_status ert_float_or(const ert_prepare *p, const char *name, float fallback, float *out);
edgert_status ert_floats(const ert_prepare *p, const char *name, uint32_t count, const float **out);
/* Index of the text among NULL-terminated choices. */
edgert_status ert_choice(const ert_prepare *p, const char *name, const char *const *choices, int *out);

#endif
