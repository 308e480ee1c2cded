/* Programs for a device: its memory, halos in it, and modules of code. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "bundle/program.h"

enum {
  MOST_HALO = UINT16_MAX,
  MOST_PTX_BYTES = 1 << 28,
  MOST_RATIO = 1032, /* of a DEFLATE stream: 258 bytes for two bits */
};

#define NO_SEGMENT UINT32_MAX

edgert_status ert_halo_verify(const ert_program *p, uint32_t id, ert_vector halo, uint8_t layout, uint32_t rank) {
  if (halo.count == 0) return EDGERT_OK;
  if (layout != ERT_LAYOUT_PLANES || rank != 4 || halo.count != 4)
    return ert_fail_tensor(
        p, id, "halo", "none, or 4 numbers of planes of rank 4",
        ert_format("%" PRIu32 " of %s of rank %" PRIu32, halo.count, ert_layout_name(layout), rank).s);
  const uint32_t *sides = halo.data;
  uint32_t most = 0;
  for (uint32_t i = 0; i < halo.count; i++) most = sides[i] > most ? sides[i] : most;
  if (most == 0 || most > MOST_HALO)
    return ert_fail_tensor(p, id, "halo", ert_format("numbers up to %d, not all 0", MOST_HALO).s,
                           ert_format("%" PRIu32, most).s);
  return EDGERT_OK;
}

static edgert_status fail_module(const ert_program *p, uint32_t number, const char *what, ert_text expected,
                                 ert_text got) {
  ert_text where = ert_format("program '%.40s', module %" PRIu32 ": %s", p->target, number, what);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected.s, got.s);
}

/* Code of a module, `bytes` at `offset` of a segment. */
static edgert_status verify_code(const ert_program *p, uint32_t number, const char *what, uint32_t segment,
                                 uint64_t offset, uint64_t bytes) {
  if (segment >= p->segments.count)
    return fail_module(p, number, ert_format("segment of its %s", what).s,
                       ert_format("-1 or below %" PRIu32, p->segments.count), ert_format("%" PRId32, (int32_t)segment));
  if (offset % ERT_ALIGNMENT != 0)
    return fail_module(p, number, ert_format("offset of its %s", what).s, ert_format("a multiple of 64"),
                       ert_format("%" PRIu64, offset));
  uint64_t room = ert_u64(ert_item(p->segments, segment), ERT_FIELD_SEGMENT_LENGTH, 0);
  if (bytes == 0 || !ert_within(offset, bytes, room))
    return fail_module(p, number, what, ert_format("1 byte or more within %" PRIu64, room),
                       ert_format("%" PRIu64 " at %" PRIu64, bytes, offset));
  return EDGERT_OK;
}

static edgert_status verify_module(const ert_program *p, uint32_t number) {
  ert_table module = ert_item(p->modules, number);
  uint32_t cubin = ert_u32(module, ERT_FIELD_MODULE_CUBIN_SEGMENT, NO_SEGMENT);
  uint32_t ptx = ert_u32(module, ERT_FIELD_MODULE_PTX_SEGMENT, NO_SEGMENT);
  if (cubin == NO_SEGMENT && ptx == NO_SEGMENT)
    return fail_module(p, number, "code", ert_format("a cubin, PTX or both"), ert_format("none"));
  if (cubin != NO_SEGMENT)
    ERT_TRY(verify_code(p, number, "cubin", cubin, ert_u64(module, ERT_FIELD_MODULE_CUBIN_OFFSET, 0),
                        ert_u64(module, ERT_FIELD_MODULE_CUBIN_BYTES, 0)));
  if (ptx == NO_SEGMENT) return EDGERT_OK;
  uint64_t stored = ert_u64(module, ERT_FIELD_MODULE_PTX_STORED, 0);
  uint64_t bytes = ert_u64(module, ERT_FIELD_MODULE_PTX_BYTES, 0);
  ERT_TRY(verify_code(p, number, "PTX", ptx, ert_u64(module, ERT_FIELD_MODULE_PTX_OFFSET, 0), stored));
  if (bytes == 0 || bytes > MOST_PTX_BYTES || (bytes + MOST_RATIO - 1) / MOST_RATIO > stored)
    return fail_module(p, number, "bytes of its PTX",
                       ert_format("1 to %d, at most %d for each of %" PRIu64, MOST_PTX_BYTES, MOST_RATIO, stored),
                       ert_format("%" PRIu64, bytes));
  return EDGERT_OK;
}

edgert_status ert_device_verify(const ert_program *p) {
  if (*p->device == '\0' && (p->device_bytes > 0 || p->modules.count > 0))
    return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("program '%.40s', for no device", p->target).s,
                    "neither device memory nor modules",
                    ert_format("%" PRIu64 " bytes and %" PRIu32 " modules", p->device_bytes, p->modules.count).s);
  for (uint32_t i = 0; i < p->modules.count; i++) ERT_TRY(verify_module(p, i));
  return EDGERT_OK;
}
