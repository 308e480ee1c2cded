/* What a session and its machine can be asked. */
#include <inttypes.h>
#include <string.h>

#include "platform/cpu.h"
#include "session/session.h"

const char *edgert_version(void) { return EDGERT_VERSION; }

const char *edgert_isa(uint32_t index) {
  const ert_simd *const *tables = ert_simd_available();
  for (uint32_t i = 0; i < index && *tables; i++) tables++;
  return *tables ? (*tables)->name : NULL;
}

uint32_t edgert_cores(void) { return ert_cpu_cores(); }

/* Steps that run several times slower than with instructions of their own. */
static uint32_t slow_steps(const ert_plan *plan) {
  uint32_t n = 0;
  for (const ert_step *step = plan->steps; step < plan->steps + plan->n_steps; step++)
    n += step->kernel->generates && step->tasks > 0 && !step->executable && !step->made;
  return n;
}

edgert_status edgert_session_describe(const edgert_session *session, edgert_session_info *out) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_expect(out, "out"));
  uint32_t threads = ert_pool_workers(session->pool);
  *out = (edgert_session_info){
      .target = session->target,
      .isa = session->simd->name,
      .device = session->device ? ert_device_name(session->device) : "",
      .cores = session->cores,
      .threads = threads,
      .steps = session->plan->n_steps,
      .slow_steps = slow_steps(session->plan),
      .arena_bytes = session->arena_bytes,
      .scratch_bytes = (uint64_t)session->scratch_bytes * threads,
      .device_bytes = session->device_bytes,
      .device_number = session->device ? ert_device_number(session->device) : -1,
      .stream = session->device ? ert_device_stream(session->device) : NULL,
  };
  return EDGERT_OK;
}

uint32_t edgert_session_input_count(const edgert_session *session) { return session ? session->plan->n_inputs : 0; }

uint32_t edgert_session_output_count(const edgert_session *session) { return session ? session->plan->n_outputs : 0; }

static edgert_status describe(const ert_binding *bindings, uint32_t count, uint32_t index, edgert_tensor_info *out) {
  if (index >= count)
    return ert_fail(EDGERT_ERROR_INVALID_ARGUMENT, "index", ert_format("below %" PRIu32, count).s,
                    ert_format("%" PRIu32, index).s);
  const ert_tensor *t = bindings[index].tensor;
  *out = (edgert_tensor_info){
      .name = t->name,
      .dtype = (edgert_dtype)t->dtype,
      .rank = t->rank,
      .bytes = t->bytes,
      .dynamic = bindings[index].count != NULL,
  };
  memcpy(out->shape, t->shape, sizeof out->shape);
  return EDGERT_OK;
}

edgert_status edgert_session_input(const edgert_session *session, uint32_t index, edgert_tensor_info *out) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_expect(out, "out"));
  return describe(session->plan->inputs, session->plan->n_inputs, index, out);
}

edgert_status edgert_session_output(const edgert_session *session, uint32_t index, edgert_tensor_info *out) {
  ERT_TRY(ert_expect(session, "session"));
  ERT_TRY(ert_expect(out, "out"));
  return describe(session->plan->outputs, session->plan->n_outputs, index, out);
}

edgert_status edgert_session_output_shape(const edgert_session *session, uint32_t index, int64_t *shape) {
  ERT_TRY(ert_expect(shape, "shape"));
  edgert_tensor_info info;
  ERT_TRY(edgert_session_output(session, index, &info));
  const ert_binding *output = &session->plan->outputs[index];
  if (output->count && session->ran) {
    int64_t count = *(const int64_t *)output->count->data, most = info.shape[output->axis];
    info.shape[output->axis] = count < 0 ? 0 : count < most ? count : most;
  }
  memcpy(shape, info.shape, info.rank * sizeof *shape);
  return EDGERT_OK;
}
