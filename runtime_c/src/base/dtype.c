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

static const char *const layouts[ERT_LAYOUT_COUNT] = {"planar", "block16", "weight16", "depth16"};

size_t ert_dtype_bytes(uint8_t dtype) { return dtype < ERT_DTYPE_COUNT ? types[dtype].bytes : 0; }

bool ert_dtype_reduced(uint8_t dtype) { return dtype == EDGERT_F16 || dtype == EDGERT_BF16; }

const char *ert_dtype_name(uint8_t dtype) { return ert_dtype_bytes(dtype) ? types[dtype].name : "?"; }

const char *ert_layout_name(uint8_t layout) { return layout < ERT_LAYOUT_COUNT ? layouts[layout] : "?"; }

bool ert_tensor_size(uint8_t dtype, uint8_t layout, uint32_t rank, const int64_t *shape, int64_t *elements,
                     size_t *bytes) {
  static const uint8_t least_rank[ERT_LAYOUT_COUNT] = {0, 1, 3, 1};
  const int64_t limit = (int64_t)1 << 48;
  if (!ert_dtype_bytes(dtype) || layout >= ERT_LAYOUT_COUNT || rank > ERT_MAX_RANK || rank < least_rank[layout])
    return false;
  uint32_t padded = layout == ERT_LAYOUT_PLANAR ? ERT_MAX_RANK : layout == ERT_LAYOUT_DEPTH16 || rank == 1 ? 0 : 1;
  int64_t stored = (int64_t)ert_dtype_bytes(dtype);
  bool empty = false;
  *elements = 1;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t size = shape[i];
    if (size < 0 || size > limit) return false;
    empty |= size == 0;
    int64_t lanes = i == padded ? (size + 15) / 16 * 16 : size;
    if (lanes > 1 && stored > limit / lanes) return false;
    if (lanes > 1) stored *= lanes;
    *elements *= size; /* at most `stored` */
  }
  *bytes = empty ? 0 : (size_t)stored;
  return true;
}
