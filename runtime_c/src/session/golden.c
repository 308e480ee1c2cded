/* The bundle's golden samples as what a session's program takes and gives. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "session/session.h"

static edgert_status find_sample(const edgert_session *session, uint32_t sample, ert_table *out) {
  ert_vector goldens = ert_items(session->bundle->root, ERT_FIELD_BUNDLE_GOLDENS);
  if (sample >= goldens.count)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "sample", ert_format("below %" PRIu32, goldens.count).s,
                    ert_format("%" PRIu32, sample).s);
  *out = ert_item(goldens, sample);
  return EDGERT_OK;
}

static const char *name_of(ert_table array) { return ert_string(array, ERT_FIELD_GOLDEN_TENSOR_NAME); }

/* Every array of the sample is for one of the bindings. */
static edgert_status expect_names(ert_vector arrays, const ert_binding *bindings, uint32_t count, const char *what) {
  for (uint32_t i = 0; i < arrays.count; i++) {
    const char *name = name_of(ert_item(arrays, i));
    uint32_t k = 0;
    while (k < count && strcmp(bindings[k].tensor->name, name) != 0) k++;
    if (k == count)
      return ert_fail(EDGERT_ERROR_MALFORMED, "golden sample", ert_format("the name of an %s", what).s,
                      ert_format("'%.80s'", name).s);
  }
  return EDGERT_OK;
}

edgert_status edgert_session_golden(const edgert_session *session, uint32_t sample, edgert_golden_info *out) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_expect(out, "out"));
  ert_table golden = NULL;
  ERT_TRY(find_sample(session, sample, &golden));
  const ert_plan *plan = session->plan;
  ERT_TRY(expect_names(ert_items(golden, ERT_FIELD_GOLDEN_INPUTS), plan->inputs, plan->n_inputs, "input"));
  ERT_TRY(expect_names(ert_items(golden, ERT_FIELD_GOLDEN_OUTPUTS), plan->outputs, plan->n_outputs, "output"));
  *out = (edgert_golden_info){
      .atol = ert_f32(golden, ERT_FIELD_GOLDEN_ATOL, 0),
      .rtol = ert_f32(golden, ERT_FIELD_GOLDEN_RTOL, 0),
  };
  return EDGERT_OK;
}

/* Proves that an array has the size of its input or output, or where that depends on data, of a part of it. */
static edgert_status expect_size(const ert_binding *binding, uint64_t offset, uint64_t length) {
  const ert_tensor *t = binding->tensor;
  ert_text where = ert_format("golden sample '%.80s'", t->name);
  bool part = binding->count && t->bytes > 0;
  uint64_t unit = part ? t->bytes / (uint64_t)t->shape[binding->axis] : t->bytes;
  bool fits = part ? length <= t->bytes && length % unit == 0 : length == unit;
  ert_text expected = part ? ert_format("a multiple of %" PRIu64 " bytes up to %zu", unit, t->bytes)
                           : ert_format("%" PRIu64 " bytes", unit);
  if (!fits) return ert_fail(EDGERT_ERROR_MALFORMED, where.s, expected.s, ert_format("%" PRIu64, length).s);
  if (offset % ERT_ALIGNMENT != 0)
    return ert_fail(EDGERT_ERROR_MALFORMED, where.s, ert_format("an offset that is a multiple of %d", ERT_ALIGNMENT).s,
                    ert_format("%" PRIu64, offset).s);
  return EDGERT_OK;
}

/* The array that the sample's list `field` holds for bindings[index]; *data is NULL if it holds none. */
static edgert_status find_array(const edgert_session *session, uint32_t sample, uint32_t field,
                                const ert_binding *bindings, uint32_t count, uint32_t index, const void **data,
                                size_t *bytes) {
  *data = NULL;
  *bytes = 0;
  ert_table golden = NULL;
  ERT_TRY(find_sample(session, sample, &golden));
  if (index >= count)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "index", ert_format("below %" PRIu32, count).s,
                    ert_format("%" PRIu32, index).s);
  ert_vector arrays = ert_items(golden, field);
  const char *name = bindings[index].tensor->name;
  for (uint32_t i = 0; i < arrays.count; i++) {
    ert_table array = ert_item(arrays, i);
    if (strcmp(name_of(array), name) != 0) continue;
    uint32_t number = ert_u32(array, ERT_FIELD_GOLDEN_TENSOR_SEGMENT, 0);
    uint64_t offset = ert_u64(array, ERT_FIELD_GOLDEN_TENSOR_OFFSET, 0);
    uint64_t length = ert_u64(array, ERT_FIELD_GOLDEN_TENSOR_LENGTH, 0);
    ERT_TRY(expect_size(&bindings[index], offset, length));
    if (!session->bundle->whole) ERT_TRY(ert_segment_intact(session->bundle, number));
    ert_vector segments = ert_items(session->bundle->root, ERT_FIELD_BUNDLE_SEGMENTS);
    *data = ert_segment_data(session->bundle, ert_item(segments, number)) + offset;
    *bytes = (size_t)length;
    return EDGERT_OK;
  }
  return EDGERT_OK;
}

edgert_status edgert_session_golden_input(const edgert_session *session, uint32_t sample, uint32_t index,
                                          const void **data, size_t *bytes) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_expect(bytes, "bytes"));
  ERT_TRY(ert_expect(data, "data"));
  const ert_plan *plan = session->plan;
  ERT_TRY(find_array(session, sample, ERT_FIELD_GOLDEN_INPUTS, plan->inputs, plan->n_inputs, index, data, bytes));
  if (*data) return EDGERT_OK;
  return ert_fail(EDGERT_ERROR_MALFORMED, ert_format("golden sample %" PRIu32, sample).s,
                  ert_format("values for the input '%.80s'", plan->inputs[index].tensor->name).s, "none");
}

edgert_status edgert_session_golden_output(const edgert_session *session, uint32_t sample, uint32_t index,
                                           const void **data, size_t *bytes) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_expect(bytes, "bytes"));
  ERT_TRY(ert_expect(data, "data"));
  const ert_plan *plan = session->plan;
  return find_array(session, sample, ERT_FIELD_GOLDEN_OUTPUTS, plan->outputs, plan->n_outputs, index, data, bytes);
}
