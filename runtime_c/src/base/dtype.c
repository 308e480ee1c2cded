/* Element types and layouts: names and sizes. */
#include "base/dtype.h"

static const struct {
  const char *name;
  uint8_t bytes;
} types[ERT_DTYPE_COUNT] = {
    [EDGERT_F32] = {"f32", 4}, [EDGERT_U8] = {"u8", 1},     [EDGERT_I8] = {"i8", 1},   [EDGERT_U16] = {"u16", 2},
    [EDGERT_I16] = {"i16", 2}, [EDGERT_I32] = {"i32", 4},   [EDGERT_I64] = {"i64", 8}, [EDGERT_U32] = {"u32", 4},
    [EDGERT_U64] = {"u64", 8}, [EDGERT_BOOL] = {"bool", 1}, [EDGERT_F16] = {"f16", 2}, [EDGERT_BF16] = {"bf16", 2},
};

static const char *const layouts[ERT_LAYOUT_COUNT] = {"planar", "block16", "weight16", "depth16", "planes"};

size_t ert_dtype_bytes(uint8_t dtype) { return dtype < ERT_DTYPE_COUNT ? types[dtype].bytes : 0; }

bool ert_dtype_reduced(uint8_t dtype) { return dtype == EDGERT_F16 || dtype == EDGERT_BF16; }

const char *ert_dtype_name(uint8_t dtype) { return ert_dtype_bytes(dtype) ? types[dtype].name : "?"; }

const char *ert_layout_name(uint8_t layout) { return layout < ERT_LAYOUT_COUNT ? layouts[layout] : "?"; }

int64_t ert_planes_extent(const int64_t *shape, const uint32_t *halo, uint32_t i) {
  if (i < 2 || !halo || (halo[0] | halo[1] | halo[2] | halo[3]) == 0) return shape[i];
  return i == 2 ? halo[0] + shape[i] + halo[2] : (halo[1] + shape[i] + halo[3] + 3) / 4 * 4;
}

/* The extent that dimension i has in memory. */
static int64_t stored_extent(uint8_t layout, uint32_t rank, const int64_t *shape, const uint32_t *halo, uint32_t i) {
  if (layout == ERT_LAYOUT_PLANES) return ert_planes_extent(shape, halo, i);
  if (layout == ERT_LAYOUT_PLANAR) return shape[i];
  uint32_t lanes = layout == ERT_LAYOUT_DEPTH16 || rank == 1 ? 0 : 1;
  return i == lanes ? (shape[i] + 15) / 16 * 16 : shape[i];
}

bool ert_tensor_size(uint8_t dtype, uint8_t layout, uint32_t rank, const int64_t *shape, const uint32_t *halo,
                     int64_t *elements, size_t *bytes) {
  static const uint8_t least_rank[ERT_LAYOUT_COUNT] = {0, 1, 3, 1, 0};
  const int64_t limit = (int64_t)1 << 48;
  if (!ert_dtype_bytes(dtype) || layout >= ERT_LAYOUT_COUNT || rank > ERT_MAX_RANK || rank < least_rank[layout])
    return false;
  if (halo && rank != 4) return false;
  int64_t stored = (int64_t)ert_dtype_bytes(dtype);
  bool empty = false;
  *elements = 1;
  for (uint32_t i = 0; i < rank; i++) {
    if (shape[i] < 0 || shape[i] > limit) return false;
    empty |= shape[i] == 0;
  }
  for (uint32_t i = 0; i < rank; i++) {
    int64_t extent = stored_extent(layout, rank, shape, halo, i);
    if (extent > 1 && (__builtin_mul_overflow(stored, extent, &stored) || stored > limit)) return false;
    *elements *= shape[i]; /* at most `stored` */
  }
  *bytes = empty ? 0 : (size_t)stored;
  return true;
}
