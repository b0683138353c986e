// The functions of one level, declared in its namespace, for that level's table (cpu/vector/table.cpp).
#pragma once

#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {

void rms_norm_row(const float* x, const float* w, float eps, std::size_t cols, float* y);
void residual_rms_norm_row(float* x, const float* branch, const float* w_post, const float* w_next, float eps,
                           std::size_t cols, float* y);
void norm_rope_head(float* x, const float* w, float eps, const float* table, std::size_t head_dim);
void geglu(const float* gate, const float* up, std::size_t count, float* y);
void store_f16_row(const float* from, std::size_t count, std::uint16_t* to);
void store_bf16_row(const float* from, std::size_t count, std::uint16_t* to);
void store_q8_0_row(const float* from, std::size_t count, std::byte* to);
void store_q4_0_row(const float* from, std::size_t count, std::byte* to);
void pack_queries(const AttentionBlock& block, const float* q, std::size_t q_stride, float factor);
void start_state(const AttentionBlock& block, const AttentionState& state);
void attend_tile(const AttentionBlock& block, const AttentionTile& tile, const AttentionTile& next,
                 const AttentionState& state);
void merge_state(const AttentionBlock& block, const AttentionState& total, const AttentionState& segment);
void finish(const AttentionBlock& block, const AttentionState& state, float* out, std::size_t out_stride);

extern const VectorKernels kTable;

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
