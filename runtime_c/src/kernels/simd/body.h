/* The table of one instruction set: every family's template, instantiated with the vectors of ERT_VECTOR_BYTES. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* Each block of includes uses the ones above it. */
#include "kernels/simd/vec-math.h"

#include "kernels/simd/vec-double.h"

#include "kernels/simd/f32-binary.h"
#include "kernels/simd/f32-dense.h"
#include "kernels/simd/f32-depthwise.h"
#include "kernels/simd/f32-direct.h"
#include "kernels/simd/f32-masked.h"
#include "kernels/simd/f32-reduce.h"
#include "kernels/simd/f32-sliced.h"
#include "kernels/simd/f32-sparse-copy.h"
#include "kernels/simd/f32-sparse-matrix.h"
#include "kernels/simd/f32-sparse.h"
#include "kernels/simd/f32-unary.h"
#include "kernels/simd/f32-unrolled.h"
#include "kernels/simd/f32-winograd.h"
#include "kernels/simd/sparse-gaps.h"

#include "kernels/simd/f32-pool.h"
#include "kernels/simd/f32-softmax.h"
#include "kernels/simd/f32-vector.h"

#include "kernels/simd/f32-depthwise-planar.h"

#define ERT_SIMD_PASTE(isa) ert_simd_##isa
#define ERT_SIMD_TABLE(isa) ERT_SIMD_PASTE(isa)
#define ERT_SIMD_QUOTE(isa) #isa
#define ERT_SIMD_NAME(isa)  ERT_SIMD_QUOTE(isa)

#include "kernels/simd/table.h"
