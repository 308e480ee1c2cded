/* A bundle: a verified file in memory. The stages of opening one are a file each. */
#ifndef ERT_BUNDLE_BUNDLE_H
#define ERT_BUNDLE_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bundle/flatbuffer.h"
#include "platform/file.h"

enum { ERT_PAGE_BYTES = 4096, ERT_CHUNK_BYTES = 1 << 20 };

/* Where a tensor lives; numbers of the bundle format. */
typedef enum ert_place {
  ERT_PLACE_ARENA = 0,
  ERT_PLACE_SEGMENT = 1,
  ERT_PLACE_INPUT = 2,
  ERT_PLACE_OUTPUT = 3,
  ERT_PLACE_DEVICE = 4,
} ert_place;

/* Of tensors in a device's memory: bytes that their offsets are multiples of. */
enum { ERT_DEVICE_ALIGNMENT = 16 };

/* A tensor's root if it is no view. */
#define ERT_NO_ROOT UINT32_MAX

/* A step's core if each core runs a share of its tasks. */
enum { ERT_ALL_CORES = 255 };

struct edgert_bundle {
  const uint8_t *data; /* the whole file */
  uint64_t bytes;
  ert_mapping mapping; /* owned; empty if `data` is the caller's */
  ert_table root;
  ert_metadata metadata;
  uint64_t metadata_end; /* where its digests end */
  bool whole;            /* all of it has been proven: segments have their digests, and all programs hold */
};

/* header.c: proves the file header and, as far as `reach`, that the metadata is intact and a flatbuffer; sets root,
 * metadata and metadata_end. */
edgert_status ert_header_verify(edgert_bundle *bundle, ert_reach reach);

/* segments.c: proves that the segments fill the rest of the file, and that the golden samples lie in them. */
edgert_status ert_segments_verify(const edgert_bundle *bundle);

/* program.c: proves ranges, references and schedules of every program. */
edgert_status ert_programs_verify(const edgert_bundle *bundle);

/* The same for one, unless the whole bundle has been proven. Nothing but a program's own fields may be read before. */
edgert_status ert_program_verify(const edgert_bundle *bundle, uint32_t index);

/* integrity.c: compares every segment with its digest, on `threads` threads, and proves that gaps are zero. */
edgert_status ert_integrity_verify(const edgert_bundle *bundle, uint32_t threads);

/* The same for one segment, on the calling thread. */
edgert_status ert_segment_intact(const edgert_bundle *bundle, uint32_t number);

/* The bytes of a verified segment. */
static inline const uint8_t *ert_segment_data(const edgert_bundle *bundle, ert_table segment) {
  return bundle->data + ert_u64(segment, ERT_FIELD_SEGMENT_OFFSET, 0);
}

#endif
