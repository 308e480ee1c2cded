/* The stream of an unrolled convolution: proving it, and finding groups in it. */
#include "kernels/unrolled_stream.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/partition.h"

ert_unrolled_group ert_unrolled_group_at(const ert_unrolled_stream *s, int64_t tile, int64_t group) {
  const int32_t *row = s->groups + tile * s->groups_tile + group * s->groups_row;
  return (ert_unrolled_group){row[0], row[1], row[2], row[3], row + 4};
}

static bool within(int64_t begin, int64_t count, int64_t stored) {
  return begin >= 0 && count >= 0 && begin <= stored && count <= stored - begin;
}

/* Where the batches of a group end, of all that there are; -1 if it has more. */
static int64_t end_of(const ert_unrolled_group *group, int64_t taps, int64_t stored) {
  int64_t end = group->batch;
  for (int64_t tap = 0; tap < taps; tap++) {
    const int64_t n = group->tap_batches[tap];
    if (n < 0 || n > stored - end) return -1;
    end += n;
  }
  return end;
}

edgert_status ert_unrolled_stream_read(const ert_prepare *p, const ert_unrolled_geometry *g, edgert_dtype dtype,
                                       ert_unrolled_stream *out) {
  const ert_step *step = p->step;
  const ert_tensor *values = step->in[ERT_UNROLLED_VALUES], *owners = step->in[ERT_UNROLLED_OWNERS];
  const ert_tensor *batches = step->in[ERT_UNROLLED_BATCHES], *groups = step->in[ERT_UNROLLED_GROUPS];
  if (dtype != EDGERT_F32 || !ert_dtype_reduced(values->dtype)) ERT_TRY(ert_expect_dtype(p, values, dtype));
  ERT_TRY(ert_expect_dtype(p, owners, EDGERT_U8));
  ERT_TRY(ert_expect_dtype(p, batches, EDGERT_U32));
  ERT_TRY(ert_expect_dtype(p, groups, EDGERT_I32));
  const int64_t rows = groups->rank == 3 ? groups->shape[1] : 0, least = step->out[0]->elements > 0;
  ERT_TRY(ert_expect_shape(p, values, 1, values->shape));
  ERT_TRY(ert_expect_shape(p, owners, 1, values->shape));
  ERT_TRY(ert_expect_shape(p, batches, 1, batches->shape));
  ERT_TRY(ert_expect_shape(p, groups, 3, (const int64_t[]){g->tiles, rows, 4 + g->taps}));
  if (rows < least * g->g.groups || rows % g->g.groups != 0)
    return ert_reject(p, "groups of filters", "as many of each group", "%" PRId64 " of %" PRId64, rows, g->g.groups);
  if (!owners->constant || !batches->constant || !groups->constant)
    return ert_reject(p, "owners, batches and groups", "constants", "values that are computed");
  *out = (ert_unrolled_stream){
      .weights = ert_weights_of(values),
      .batches = batches->data,
      .owners = owners->data,
      .groups = groups->data,
      .groups_tile = ert_stride(groups, 0),
      .groups_row = ert_stride(groups, 1),
      .each = rows / g->g.groups,
  };
  if (step->out[0]->elements == 0) return EDGERT_OK;
  for (int64_t i = 0, of_group = 0; i < rows; i++) {
    of_group += ert_unrolled_group_at(out, 0, i).filters;
    if (of_group > g->g.filters || ((i + 1) % out->each == 0 && of_group != g->g.filters))
      return ert_reject(p, "filters of all groups", "those of the convolution", "%" PRId64 ", not %" PRId64, of_group,
                        g->g.filters);
    if ((i + 1) % out->each == 0) of_group = 0;
  }
  const int64_t stored = batches->shape[0];
  int64_t batch = 0,
          value = 0; /* where the group before ends: each is looked at once, so time is that of reading all */
  for (int64_t tile = 0; tile < g->tiles; tile++)
    for (int64_t i = 0; i < rows; i++) {
      const ert_unrolled_group group = ert_unrolled_group_at(out, tile, i);
      if (group.filters < 1 || group.filters > ERT_UNROLLED_FILTERS ||
          group.filters != ert_unrolled_group_at(out, 0, i).filters)
        return ert_reject(p, "filters of a group", "1 to 28, in each tile the same", "%d", group.filters);
      const int64_t end = end_of(&group, g->taps, stored);
      if (group.batch < batch || group.value < value)
        return ert_reject(p, "batches and values of a group", "ones behind those of the group before",
                          "from %d and %d on, not from %" PRId64 " and %" PRId64, group.batch, group.value, batch,
                          value);
      if (end < 0 || !within(group.value, group.n_values, values->shape[0]))
        return ert_reject(p, "batches and values of a group", "ones that are stored",
                          "ones from %d and %d on, of %" PRId64 " and %" PRId64, group.batch, group.value, stored,
                          values->shape[0]);
      out->n_batches = ert_max64(out->n_batches, end - group.batch);
      batch = end, value = (int64_t)group.value + group.n_values;
      out->n_values = ert_max64(out->n_values, group.n_values);
    }
  return EDGERT_OK;
}

/* Batches of a tap: their channels are the tile's. Adds up how many values they have. Plain loops, which compilers turn into
 * ones over vectors, of sums that 32 bits do for. */
static edgert_status prove_tap(const ert_prepare *p, const uint32_t *batch, int64_t n, int64_t channels,
                               int64_t *values) {
  int64_t far = 0;
  for (int64_t i = 0; i < n; i += 1 << 16) {
    const int64_t end = ert_min64(n, i + (1 << 16));
    uint32_t on = 0, own = 0;
    for (int64_t k = i; k < end; k++) {
      on += (batch[k] & 63) + (batch[k] >> 8 & 63) + (batch[k] >> 16 & 63) + (batch[k] >> 24 & 63);
      own += ert_unrolled_values(batch[k]);
    }
    far += on, *values += own;
  }
  if (n == 0 || far < channels) return EDGERT_OK;
  return ert_reject(p, "channels of a group of filters", "ones of its tile", "number %" PRId64 " of %" PRId64, far,
                    channels);
}

static edgert_status prove_group(const ert_prepare *p, const ert_unrolled_stream *s, const ert_unrolled_group *group,
                                 int64_t channels, int64_t taps) {
  const uint32_t *batch = s->batches + group->batch;
  int64_t owned = 0;
  for (int64_t tap = 0; tap < taps; batch += group->tap_batches[tap++])
    ERT_TRY(prove_tap(p, batch, group->tap_batches[tap], channels, &owned));
  if (owned != group->n_values)
    return ert_reject(p, "values of a group", "as many as its batches tell", "%d, not %" PRId64, group->n_values,
                      owned);
  const uint8_t *owner = s->owners + group->value;
  uint8_t largest = 0;
  for (int32_t i = 0; i < group->n_values; i++) {
    const uint8_t filter = owner[i] & ERT_UNROLLED_OWNER;
    largest = filter > largest ? filter : largest;
  }
  if (group->n_values > 0 && largest >= group->filters)
    return ert_reject(p, "owner of a value", "a filter of its group", "%d of %d", largest, group->filters);
  return EDGERT_OK;
}

edgert_status ert_unrolled_stream_prove(const ert_prepare *p, const ert_unrolled_geometry *g,
                                        const ert_unrolled_stream *s) {
  for (int64_t tile = 0; tile < g->tiles; tile++)
    for (int64_t i = 0; i < s->each * g->g.groups; i++) {
      const ert_unrolled_group group = ert_unrolled_group_at(s, tile, i);
      ERT_TRY(prove_group(p, s, &group, ert_min64(g->tile, g->g.channels - tile * g->tile), g->taps));
    }
  return EDGERT_OK;
}
