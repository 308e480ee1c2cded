/* Verification of a program, a file for each part: its tensors and steps, views, code for devices, races between cores. */
#ifndef ERT_BUNDLE_PROGRAM_H
#define ERT_BUNDLE_PROGRAM_H

#include "bundle/bundle.h"

/* A program and the lists its parts refer to. */
typedef struct ert_program {
  const char *target, *device;
  ert_vector segments, tensors, steps, inputs, outputs, modules;
  uint64_t arena_bytes, device_bytes;
  uint32_t cores;
} ert_program;

/* What a tensor's table says, read once its type is known to be sound. */
typedef struct ert_entry {
  const int64_t *shape;
  const uint32_t *halo; /* NULL: none */
  uint32_t rank;
  uint8_t dtype, layout, place;
  uint32_t index, root;
  uint64_t offset;
  int64_t elements;
  size_t bytes;
} ert_entry;

/* program.c: reads the tensor `id`, which is below their count. */
edgert_status ert_entry_read(const ert_program *p, uint32_t id, ert_entry *out);

/* program.c: fails as malformed; `what` of a tensor or step was expected and got. */
edgert_status ert_fail_tensor(const ert_program *p, uint32_t id, const char *what, const char *expected,
                              const char *got);
edgert_status ert_fail_step(const ert_program *p, uint32_t number, const char *what, const char *expected,
                            const char *got);

/* views.c: proves that the tensor `id`, whose entry is `view`, is a box of its root. */
edgert_status ert_view_verify(const ert_program *p, uint32_t id, const ert_entry *view);

/* device.c: proves that the halo of the tensor `id` is one. */
edgert_status ert_halo_verify(const ert_program *p, uint32_t id, ert_vector halo, uint8_t layout, uint32_t rank);

/* device.c: proves that code for a device lies in its segments, and that only programs for a device have some. */
edgert_status ert_device_verify(const ert_program *p);

/* Pairs of operands that may be compared in a bundle for each byte of its metadata. */
enum { ERT_PAIRS_PER_BYTE = 16 };

/* races.c: proves that no core touches what another one writes in the same phase. Everything else has been verified.
 * Takes from *pairs the pairs of operands that it compares. */
edgert_status ert_races_verify(const ert_program *p, uint64_t *pairs);

#endif
