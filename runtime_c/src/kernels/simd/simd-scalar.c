/* The specification of every family: plain loops, compiled without any instruction set beyond the baseline. */
#include "kernels/simd/simd.h"

#include "kernels/simd/scalar-dense.h"
#include "kernels/simd/scalar-depthwise-planar.h"
#include "kernels/simd/scalar-depthwise.h"
#include "kernels/simd/scalar-direct.h"
#include "kernels/simd/scalar-masked.h"
#include "kernels/simd/scalar-sliced.h"
#include "kernels/simd/scalar-sparse.h"
#include "kernels/simd/scalar-unrolled.h"
#include "kernels/simd/scalar-vector.h"
#include "kernels/simd/scalar-winograd.h"

#include "kernels/simd/scalar-binary.h"
#include "kernels/simd/scalar-reduce.h"
#include "kernels/simd/scalar-unary.h"

extern const ert_simd ert_simd_scalar;
const ert_simd ert_simd_scalar = {
    .name = "scalar",
    .dense = dense_run,
    .dense_bf16 = dense_run,
    .round_bf16 = round_bf16,
    .bf16_bytes = 4,
    .vector_columns = vector_columns,
    .vector_rows = vector_rows,
    .depthwise = depthwise_run,
    .depthwise_planar = depthwise_planar_run,
    .direct = direct_run,
    .sparse_limits = {{1, 224, 1, 224, 0}, {1, 96, 1, 96, 0}},
    .sparse = sparse_run,
    .sparse_copy = sparse_copy,
    .sparse_widen = sparse_widen,
    .sparse_farthest = sparse_farthest,
    .sparse_matrix = sparse_matrix,
    .masked = masked_run,
    .sliced = sliced_run,
    .unrolled_pack = unrolled_pack,
    .unrolled = unrolled_run,
    .winograd_input = winograd_input,
    .winograd_weights = winograd_weights,
    .winograd_multiply = winograd_multiply,
    .winograd_output = winograd_output,
    .unary = scalar_unary,
    .binary = scalar_binary,
    .affine = scalar_affine,
    .fold_row = scalar_fold_row,
    .fold_rows = scalar_fold_rows,
    .fold_columns = scalar_fold_columns,
    .moments = scalar_moments,
    .center = scalar_center,
    .normalize_rows = scalar_normalize_rows,
    .lrn = scalar_lrn,
    .softmax_rows = scalar_softmax_rows,
    .softmax_columns = scalar_softmax_columns,
    .pool_blocks = scalar_pool_blocks,
    .pool_planar = scalar_pool_planar,
};
