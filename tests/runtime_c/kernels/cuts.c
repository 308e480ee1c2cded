/* How kernels cut their work, for tests that compare this with what the planner thinks of it; what harness.py calls. */
#include <stdlib.h>

#include "kernels/sparse_geometry.h"
#include "kernels/unrolled_geometry.h"

/* Of an unrolled convolution: strips, vectors and floats that are copied of each channel, in all of an image; whether inputs
 * are kept, packed, or copied row by row; and bytes of the instructions of a set. */
edgert_status ert_test_unrolled_cut(ert_tensor **in, uint32_t n_in, ert_tensor **out, const ert_attribute *attributes,
                                    uint32_t n_attributes, int64_t found[7]);

/* Of a sparse convolution by an instruction set: floats of a line, its tail included; strips, and how often accumulators are
 * begun in all of them, in one depth of the outputs unless all positions are one row. */
edgert_status ert_test_sparse_cut(const char *isa, ert_tensor **in, uint32_t n_in, ert_tensor **out,
                                  const ert_attribute *attributes, uint32_t n_attributes, int64_t found[3]);

static ert_step step_of(ert_tensor **in, uint32_t n_in, ert_tensor **out, const ert_attribute *attributes,
                        uint32_t n_attributes) {
  return (ert_step){.in = (const ert_tensor *const *)in,
                    .out = out,
                    .attributes = attributes,
                    .n_in = n_in,
                    .n_out = 1,
                    .n_attributes = n_attributes,
                    .node = "test"};
}

edgert_status ert_test_unrolled_cut(ert_tensor **in, uint32_t n_in, ert_tensor **out, const ert_attribute *attributes,
                                    uint32_t n_attributes, int64_t found[7]) {
  ert_step step = step_of(in, n_in, out, attributes, n_attributes);
  ert_prepare prepare = {.step = &step, .workers = 1};
  ert_strides x, y, residual;
  ert_unrolled_geometry s = {0};
  ert_strides_of_step(&step, n_in, &x, &y, &residual);
  ERT_TRY(ert_unrolled_geometry_read(&prepare, &x, true, &s));
  ert_sparse_run *runs = malloc((size_t)ert_unrolled_runs(&s) * sizeof *runs);
  if (!runs) return EDGERT_ERROR_OUT_OF_MEMORY;
  const int64_t strips = s.g.out[0] * s.strips, planes = ert_unrolled_planes(&s);
  const bool lined = s.packed && (ert_unrolled_list_runs(&s, &x, 0, 0, runs) > 1 || s.g.stride[2] > 1);
  free(runs);
  found[0] = strips;
  found[1] = strips * ert_unrolled_vectors(&s, s.rows);
  found[2] = s.in_place ? 0 : strips * planes * s.height * s.pitch * (lined ? 2 : 1); /* to lines, and from there */
  found[3] = s.kept;
  found[4] = s.packed;
  found[5] = s.rowed;
  found[6] = (int64_t)s.room;
  return EDGERT_OK;
}

edgert_status ert_test_sparse_cut(const char *isa, ert_tensor **in, uint32_t n_in, ert_tensor **out,
                                  const ert_attribute *attributes, uint32_t n_attributes, int64_t found[3]) {
  ert_step step = step_of(in, n_in, out, attributes, n_attributes);
  ert_prepare prepare = {.step = &step, .simd = ert_simd_find(isa), .workers = 1};
  ert_sparse_geometry s = {0};
  ERT_TRY(ert_sparse_geometry_read(&prepare, true, &s));
  found[0] = s.line + (s.tailed ? ERT_SPARSE_TAIL : 0);
  found[1] = s.strips * s.segments;
  found[2] = 0;
  for (int64_t i = 0; i < found[1]; i++) found[2] += (ert_sparse_strip_at(&s, 0, i).rows + s.chunk - 1) / s.chunk;
  return EDGERT_OK;
}
