/* The table of one instruction set: every family's template, instantiated with the vectors of ERT_VECTOR_BYTES. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Each block of includes uses the ones above it. */
#include "kernels/simd/vec-math.h"

#include "kernels/simd/f32-binary.h"
#include "kernels/simd/f32-dense.h"
#include "kernels/simd/f32-depthwise.h"
#include "kernels/simd/f32-direct.h"
#include "kernels/simd/f32-reduce.h"
#include "kernels/simd/f32-sparse.h"
#include "kernels/simd/f32-unary.h"
#include "kernels/simd/f32-winograd.h"

#include "kernels/simd/f32-pool.h"
#include "kernels/simd/f32-depthwise-planar.h" /* after what it uses of f32-pool.h */
#include "kernels/simd/f32-softmax.h"

#define ERT_SIMD_PASTE(isa) ert_simd_##isa
#define ERT_SIMD_TABLE(isa) ERT_SIMD_PASTE(isa)
#define ERT_SIMD_QUOTE(isa) #isa
#define ERT_SIMD_NAME(isa)  ERT_SIMD_QUOTE(isa)

extern const ert_simd ERT_SIMD_TABLE(ERT_ISA);
const ert_simd ERT_SIMD_TABLE(ERT_ISA) = {
    .name = ERT_SIMD_NAME(ERT_ISA),
    .dense = dense_run,
    .depthwise = depthwise_run,
    .depthwise_planar = depthwise_planar_run,
    .direct = direct_run,
    .sparse_limits = {VL, SPARSE_MOST, SPARSE_UNIT, SPARSE_UNIT_MOST},
    .sparse = sparse_run,
    .sparse_copy = sparse_copy,
    .winograd_input = winograd_input,
    .winograd_multiply = winograd_multiply,
    .winograd_output = winograd_output,
    .unary = f32_unary,
    .binary = f32_binary,
    .affine = f32_affine,
    .fold_row = f32_fold_row,
    .fold_columns = f32_fold_columns,
    .center = f32_center,
    .lrn = f32_lrn,
    .softmax_row = f32_softmax_row,
    .softmax_columns = f32_softmax_columns,
    .pool_blocks = f32_pool_blocks,
    .pool_slide = f32_pool_slide,
};
