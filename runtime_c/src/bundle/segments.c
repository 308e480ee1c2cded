/* Segments fill the file behind the metadata without overlap; golden samples lie in them. */
#include <inttypes.h>
#include <math.h>

#include "base/checked.h"
#include "bundle/bundle.h"
#include "platform/sha256.h"

static edgert_status fail(uint32_t number, ert_table segment, const char *what, uint64_t expected, uint64_t got) {
  ert_text where =
      ert_format("segment %" PRIu32 " '%.80s': %s", number, ert_string(segment, ERT_FIELD_SEGMENT_NAME), what);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, ert_format("%" PRIu64, expected).s, ert_format("%" PRIu64, got).s);
}

static edgert_status fail_golden(uint32_t golden, ert_table tensor, ert_text expected, ert_text got) {
  const char *name = ert_string(tensor, ERT_FIELD_GOLDEN_TENSOR_NAME);
  ert_text where = ert_format("golden sample %" PRIu32 ", '%.80s'", golden, name);
  return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected.s, got.s);
}

static edgert_status verify_golden_tensors(ert_vector tensors, ert_vector segments, uint32_t golden) {
  for (uint32_t i = 0; i < tensors.count; i++) {
    ert_table tensor = ert_item(tensors, i);
    uint32_t number = ert_u32(tensor, ERT_FIELD_GOLDEN_TENSOR_SEGMENT, 0);
    if (number >= segments.count)
      return fail_golden(golden, tensor, ert_format("a segment below %" PRIu32, segments.count),
                         ert_format("%" PRIu32, number));
    uint64_t room = ert_u64(ert_item(segments, number), ERT_FIELD_SEGMENT_LENGTH, 0);
    uint64_t offset = ert_u64(tensor, ERT_FIELD_GOLDEN_TENSOR_OFFSET, 0);
    uint64_t length = ert_u64(tensor, ERT_FIELD_GOLDEN_TENSOR_LENGTH, 0);
    if (!ert_within(offset, length, room))
      return fail_golden(golden, tensor, ert_format("bytes within the segment's %" PRIu64, room),
                         ert_format("%" PRIu64 " at %" PRIu64, length, offset));
  }
  return EDGERT_OK;
}

static edgert_status verify_goldens(const edgert_bundle *bundle, ert_vector segments) {
  ert_vector goldens = ert_items(bundle->root, ERT_FIELD_BUNDLE_GOLDENS);
  for (uint32_t i = 0; i < goldens.count; i++) {
    ert_table golden = ert_item(goldens, i);
    float atol = ert_f32(golden, ERT_FIELD_GOLDEN_ATOL, 0), rtol = ert_f32(golden, ERT_FIELD_GOLDEN_RTOL, 0);
    if (!(isfinite(atol) && atol >= 0 && isfinite(rtol) && rtol >= 0))
      return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("golden sample %" PRIu32 ": tolerances", i).s,
                      "finite numbers, not negative", ert_format("%g and %g", (double)atol, (double)rtol).s);
    ERT_TRY(verify_golden_tensors(ert_items(golden, ERT_FIELD_GOLDEN_INPUTS), segments, i));
    ERT_TRY(verify_golden_tensors(ert_items(golden, ERT_FIELD_GOLDEN_OUTPUTS), segments, i));
  }
  return EDGERT_OK;
}

edgert_status ert_segments_verify(const edgert_bundle *bundle) {
  ert_vector segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS);
  uint64_t end = bundle->metadata_end;
  for (uint32_t i = 0; i < segments.count; i++) {
    ert_table segment = ert_item(segments, i);
    uint64_t offset = ert_u64(segment, ERT_FIELD_SEGMENT_OFFSET, 0);
    uint64_t length = ert_u64(segment, ERT_FIELD_SEGMENT_LENGTH, 0);
    uint64_t expected = (end + ERT_PAGE_BYTES - 1) / ERT_PAGE_BYTES * ERT_PAGE_BYTES; /* end <= length of the file */
    if (offset != expected) return fail(i, segment, "offset in the file", expected, offset);
    if (!ert_within(offset, length, bundle->bytes))
      return fail(i, segment, "length, at most", offset < bundle->bytes ? bundle->bytes - offset : 0, length);
    uint32_t digest = ert_items(segment, ERT_FIELD_SEGMENT_SHA256).count;
    if (digest != ERT_SHA256_BYTES) return fail(i, segment, "bytes of its SHA-256", ERT_SHA256_BYTES, digest);
    end = offset + length;
  }
  if (end != bundle->bytes)
    return ert_fail(EDGERT_ERROR_MALFORMED, "end of the last segment",
                    ert_format("%" PRIu64 ", the end of the file", bundle->bytes).s, ert_format("%" PRIu64, end).s);
  return verify_goldens(bundle, segments);
}
