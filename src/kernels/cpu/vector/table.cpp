#include "kernels/internal/vector_table.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {

const VectorKernels kTable = {
    .rms_norm_row = rms_norm_row,
    .residual_rms_norm_row = residual_rms_norm_row,
    .norm_rope_head = norm_rope_head,
    .geglu = geglu,
    .store_f16 = store_f16_row,
    .store_bf16 = store_bf16_row,
    .store_q8_0 = store_q8_0_row,
    .store_q4_0 = store_q4_0_row,
    .pack_queries = pack_queries,
    .start_state = start_state,
    .attend_tile = attend_tile,
    .merge_state = merge_state,
    .finish = finish,
};

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
