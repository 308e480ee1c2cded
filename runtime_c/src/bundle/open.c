/* Opening a bundle, and what it says of its programs. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "bundle/bundle.h"
#include "platform/cpu.h"

static edgert_status read_options(const edgert_open_options *given, edgert_open_options *out) {
  *out = (edgert_open_options){.struct_size = sizeof *out};
  if (given) {
    if (given->struct_size != sizeof *out)
      return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "options.struct_size", ert_format("%zu", sizeof *out).s,
                      ert_format("%zu", given->struct_size).s);
    *out = *given;
  }
  if (out->integrity != EDGERT_INTEGRITY_FULL && out->integrity != EDGERT_INTEGRITY_METADATA)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "options.integrity", "0 or 1",
                    ert_format("%d", (int)out->integrity).s);
  return EDGERT_OK;
}

/* Whoever chooses one looks at them again and again. */
static edgert_status expect_few_programs(const edgert_bundle *bundle) {
  enum { MOST = 1024 };
  const uint32_t count = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS).count;
  if (count <= MOST) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_MALFORMED, "programs", ert_format("at most %d", MOST).s,
                  ert_format("%" PRIu32, count).s);
}

static edgert_status verify(edgert_bundle *bundle, const edgert_open_options *options) {
  const bool whole = options->integrity == EDGERT_INTEGRITY_FULL;
  ERT_TRY(ert_header_verify(bundle, whole ? ERT_REACH_ALL : ERT_REACH_PROGRAMS));
  ERT_TRY(ert_segments_verify(bundle));
  ERT_TRY(expect_few_programs(bundle));
  if (!whole) return EDGERT_OK; /* programs are proven when they are looked at */
  ERT_TRY(ert_programs_verify(bundle));
  ERT_TRY(ert_integrity_verify(bundle, options->threads ? options->threads : ert_cpu_cores()));
  bundle->whole = true;
  return EDGERT_OK;
}

/* Verifies the bytes at `data`; takes over `mapping`, whatever the outcome. */
static edgert_status open_bytes(const void *data, size_t bytes, ert_mapping mapping, const edgert_open_options *options,
                                edgert_bundle **out) {
  void *memory;
  edgert_status status = ert_allocate(sizeof(edgert_bundle), "bundle", &memory);
  if (status != EDGERT_OK) {
    ert_unmap(mapping);
    return status;
  }
  edgert_bundle *bundle = memory;
  *bundle = (edgert_bundle){.data = data, .bytes = bytes, .mapping = mapping};
  status = verify(bundle, options);
  if (status != EDGERT_OK) {
    edgert_bundle_close(bundle);
    return status;
  }
  *out = bundle;
  return EDGERT_OK;
}

edgert_status edgert_bundle_open(const char *path, const edgert_open_options *given, edgert_bundle **out) {
  ERT_TRY(ert_expect(out, "out"));
  *out = NULL;
  ERT_TRY(ert_expect(path, "path"));
  edgert_open_options options;
  ERT_TRY(read_options(given, &options));
  ert_mapping mapping;
  ERT_TRY(ert_map(path, &mapping));
  return open_bytes(mapping.data, mapping.bytes, mapping, &options, out);
}

edgert_status edgert_bundle_open_memory(const void *data, size_t bytes, const edgert_open_options *given,
                                        edgert_bundle **out) {
  ERT_TRY(ert_expect(out, "out"));
  *out = NULL;
  if (bytes > 0) ERT_TRY(ert_expect(data, "data"));
  if ((uintptr_t)data % ERT_ALIGNMENT != 0)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "data", "a multiple of 64", ert_format("%p", data).s);
  edgert_open_options options;
  ERT_TRY(read_options(given, &options));
  return open_bytes(data, bytes, (ert_mapping){NULL, 0}, &options, out);
}

void edgert_bundle_close(edgert_bundle *bundle) {
  if (!bundle) return;
  ert_metadata_close(&bundle->metadata);
  ert_unmap(bundle->mapping);
  ert_free(bundle);
}

edgert_status edgert_bundle_describe(const edgert_bundle *bundle, edgert_bundle_info *out) {
  ERT_TRY(ert_expect(bundle, "bundle"));
  ERT_TRY(ert_expect(out, "out"));
  ert_vector segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS);
  *out = (edgert_bundle_info){
      .model = ert_string(bundle->root, ERT_FIELD_BUNDLE_MODEL),
      .producer = ert_string(bundle->root, ERT_FIELD_BUNDLE_PRODUCER),
      .bytes = bundle->bytes,
      .segments = segments.count,
      .goldens = ert_items(bundle->root, ERT_FIELD_BUNDLE_GOLDENS).count,
  };
  for (uint32_t i = 0; i < segments.count; i++)
    out->segment_bytes += ert_u64(ert_item(segments, i), ERT_FIELD_SEGMENT_LENGTH, 0);
  return EDGERT_OK;
}

uint32_t edgert_bundle_program_count(const edgert_bundle *bundle) {
  return bundle ? ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS).count : 0;
}
