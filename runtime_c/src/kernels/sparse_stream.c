/* The stream of non-zeros of a sparse convolution: proving it, and where in it the filters are. */
#include "kernels/sparse_stream.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "kernels/partition.h"

/* Entries of so many rows. */
static int64_t entries(const ert_sparse_stream *s, const uint8_t *counts, int64_t rows) {
  int64_t sum = 0;
  if (s->groups == 1)
    for (int64_t k = 0; k < rows; k++) sum += counts[k * s->counts_row];
  else
    for (int64_t k = 0; k < rows; k++)
      for (int64_t i = 0; i < s->groups; i++) sum += counts[k * s->counts_row + i];
  return sum;
}

static edgert_status prove_blocks(const ert_prepare *p, const ert_sparse_geometry *g, const ert_sparse_stream *s) {
  const int64_t stored = p->step->in[ERT_SPARSE_INDICES]->shape[0], rows = 16 / s->together;
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    int64_t ended = -1;
    for (int64_t block = 0; block * 16 < s->filters; block++) {
      const uint8_t *counts = s->counts + tile * s->counts_tile + block * rows * s->counts_row;
      const int64_t start = s->starts[tile * s->starts_tile + block];
      const int64_t count = entries(s, counts, ert_min64(rows, s->filters / s->together - block * rows));
      if (start < 0 || start > stored || count > stored - start)
        return ert_reject(p, "non-zeros of a block of filters", "ones that are stored",
                          "%" PRId64 " from number %" PRId64 " on, of %" PRId64, count, start, stored);
      if (ended >= 0 && start != ended)
        return ert_reject(p, "start of a block of filters", "the end of the block before", "%" PRId64 ", not %" PRId64,
                          start, ended);
      ended = start + count;
    }
  }
  return EDGERT_OK;
}

/* Measures units, and proves that sorted rows are of each of their filters once. */
static edgert_status prove_units(const ert_prepare *p, const ert_sparse_geometry *g, ert_sparse_stream *s) {
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    int64_t begun = s->starts[tile * s->starts_tile];
    for (int64_t first = 0, end; first < s->filters; first = end) {
      end = ert_min64(first + s->unit, (first / g->g.filters + 1) * g->g.filters);
      const int64_t ended = ert_sparse_position(s, tile, end);
      s->longest = ert_max64(s->longest, ended - begun);
      begun = ended;
      const int64_t rows = (end - first) / s->together;
      const uint8_t *counts = s->counts + tile * s->counts_tile + first / s->together * s->counts_row;
      uint64_t found = 0;
      for (int64_t k = 0; s->sorted && k < rows; k++) {
        const uint8_t number = counts[k * s->counts_row - 1];
        if (number >= rows || (found >> number & 1))
          return ert_reject(p, "filter of a sorted row", "each of those that are sorted together once",
                            "number %d of %" PRId64 "%s", number, rows, number < rows ? " again" : "");
        found |= UINT64_C(1) << number;
      }
    }
  }
  return EDGERT_OK;
}

edgert_status ert_sparse_stream_read(const ert_prepare *p, const ert_sparse_geometry *g, ert_sparse_stream *out) {
  const ert_step *step = p->step;
  const int64_t filters = step->out[0]->shape[1];
  const ert_tensor *values = step->in[ERT_SPARSE_VALUES], *indices = step->in[ERT_SPARSE_INDICES];
  const ert_tensor *counts = step->in[ERT_SPARSE_COUNTS], *starts = step->in[ERT_SPARSE_STARTS];
  if (!ert_dtype_reduced(values->dtype)) ERT_TRY(ert_expect_dtype(p, values, EDGERT_F32));
  if (indices->dtype != EDGERT_U16) ERT_TRY(ert_expect_dtype(p, indices, EDGERT_U8));
  ERT_TRY(ert_expect_dtype(p, counts, EDGERT_U8));
  ERT_TRY(ert_expect_dtype(p, starts, EDGERT_I32));
  ERT_TRY(ert_expect_shape(p, values, 1, values->shape));
  ERT_TRY(ert_expect_shape(p, indices, 1, (const int64_t[]){values->shape[0] / (g->together * g->deep)}));
  const bool sorted = counts->rank == 3 && counts->shape[2] > g->groups;
  ERT_TRY(ert_expect_shape(p, counts, 3, (const int64_t[]){g->tiles, filters / g->together, g->groups + sorted}));
  ERT_TRY(ert_expect_shape(p, starts, 2, (const int64_t[]){g->tiles, ert_ceil_divide(filters, 16)}));
  if (!indices->constant || !counts->constant || !starts->constant)
    return ert_reject(p, "indices, counts and starts", "constants", "values that are computed");
  if (step->n_in > ERT_SPARSE_BIAS && step->in[ERT_SPARSE_BIAS]) {
    ERT_TRY(ert_expect_dtype(p, step->in[ERT_SPARSE_BIAS], EDGERT_F32));
    ERT_TRY(ert_expect_shape(p, step->in[ERT_SPARSE_BIAS], 1, &filters));
  }
  *out = (ert_sparse_stream){
      .weights = ert_weights_of(values),
      .indices = indices->data,
      .counts = (const uint8_t *)counts->data + sorted,
      .starts = starts->data,
      .counts_tile = ert_stride(counts, 0),
      .counts_row = ert_stride(counts, 1),
      .starts_tile = ert_stride(starts, 0),
      .filters = filters,
      .together = g->together,
      .each = g->together * g->deep,
      .groups = g->groups,
      .sorted = sorted,
      .unit = sorted ? ERT_SPARSE_SORTED : 16,
  };
  if (step->out[0]->elements == 0) return EDGERT_OK;
  ERT_TRY(prove_blocks(p, g, out));
  return prove_units(p, g, out);
}

/* In scratch any index finds a line; in x, where pointwise convolutions may read, not all are channels of the tile. */
static edgert_status prove_indices(const ert_prepare *p, const ert_sparse_geometry *g, const ert_sparse_stream *s,
                                   int64_t tile) {
  const int64_t channels = ert_min64(g->tile, g->g.channels - tile * g->tile);
  const int64_t begin = s->starts[tile * s->starts_tile], end = ert_sparse_position(s, tile, s->filters);
  uint8_t largest = 0;
  for (int64_t i = begin; i < end; i++) largest = s->indices[i] > largest ? s->indices[i] : largest;
  if (begin == end || largest <= channels - g->deep) return EDGERT_OK;
  return ert_reject(p, "index of a non-zero", "one of the channels of its tile", "%d of %" PRId64, largest, channels);
}

/* Gaps lead to lines of their tile. */
static edgert_status prove_gaps(const ert_prepare *p, const ert_sparse_geometry *g, const ert_sparse_stream *s,
                                int64_t tile) {
  const int64_t lines = (g->tile - g->deep + 1) * g->lines; /* the first channel's, if there are four */
  const ert_gaps gaps = {
      .gaps = s->indices + s->starts[tile * s->starts_tile],
      .end = s->indices + p->step->in[ERT_SPARSE_INDICES]->shape[0],
      .counts = s->counts + tile * s->counts_tile,
      .counts_row = s->counts_row,
      .groups = (size_t)s->groups,
      .rows = (size_t)(s->filters / s->together),
  };
  const uint32_t line = p->simd->sparse_farthest(&gaps);
  if (line < lines) return EDGERT_OK;
  return ert_reject(p, "gaps of a row", "to lines of its tile", "to %" PRIu32 " of %" PRId64, line, lines);
}

edgert_status ert_sparse_stream_prove(const ert_prepare *p, const ert_sparse_geometry *g, const ert_sparse_stream *s) {
  const bool pointwise = ert_volume(g->g.kernel) == 1 && g->indexed == ERT_SPARSE_LINE;
  for (int64_t tile = 0; tile < g->tiles; tile++) {
    if (pointwise) ERT_TRY(prove_indices(p, g, s, tile));
    if (g->indexed == ERT_SPARSE_GAP) ERT_TRY(prove_gaps(p, g, s, tile));
  }
  return EDGERT_OK;
}

int64_t ert_sparse_position(const ert_sparse_stream *s, int64_t tile, int64_t filter) {
  const uint8_t *counts = s->counts + tile * s->counts_tile;
  const int64_t block = ert_min64(filter, s->filters - 1) / 16;
  int64_t at = s->starts[tile * s->starts_tile + block];
  for (int64_t k = block * 16; k < filter; k += s->together)
    for (int64_t g = 0; g < s->groups; g++) at += counts[k / s->together * s->counts_row + g];
  return at;
}
