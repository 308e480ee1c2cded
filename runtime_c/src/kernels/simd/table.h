/* The table ERT_ISA of the families that body.h has included. */
extern const ert_simd ERT_SIMD_TABLE(ERT_ISA);
const ert_simd ERT_SIMD_TABLE(ERT_ISA) = {
    .name = ERT_SIMD_NAME(ERT_ISA),
    .dense_bf16 = dense_run,
    .round_bf16 = round_bf16,
    .bf16_bytes = 4,
#include "kernels/simd/rows.h"
};
