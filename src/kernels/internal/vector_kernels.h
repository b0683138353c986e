// The float kernels that exist once an instruction set, as tables of functions. They work on one thread and on plain
// pointers; kernels/cpu/*.cpp splits the work and calls them. One source each: cpu/vector/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/internal/attention_block.h"
#include "kernels/internal/simd.h"

namespace ebb::kernels {

struct VectorKernels {
  // Shapes as in rms_norm.h, rope.h and geglu.h, for one row (one head in norm_rope, `count` elements in geglu).
  void (*rms_norm_row)(const float* x, const float* w, float eps, std::size_t cols, float* y);
  void (*residual_rms_norm_row)(float* x, const float* branch, const float* w_post, const float* w_next, float eps,
                                std::size_t cols, float* y);
  void (*norm_rope_head)(float* x, const float* w, float eps, const float* table, std::size_t head_dim);
  void (*geglu)(const float* gate, const float* up, std::size_t count, float* y);

  /// `count` floats to bits of the type, rounded to nearest; f16 saturates.
  void (*store_f16)(const float* from, std::size_t count, std::uint16_t* to);
  void (*store_bf16)(const float* from, std::size_t count, std::uint16_t* to);
  /// `count` floats, a multiple of 32, to blocks; the rounding is said in cpu/vector/rows.cpp.
  void (*store_q8_0)(const float* from, std::size_t count, std::byte* to);
  void (*store_q4_0)(const float* from, std::size_t count, std::byte* to);

  // In this order: pack_queries once a block, start_state once a segment, attend_tile for its tiles in order
  // (`next`: the tile that will follow, or the same again at the end; only a hint).
  void (*pack_queries)(const AttentionBlock& block, const float* q, std::size_t q_stride, float factor);
  void (*start_state)(const AttentionBlock& block, const AttentionState& state);
  void (*attend_tile)(const AttentionBlock& block, const AttentionTile& tile, const AttentionTile& next,
                      const AttentionState& state);
  /// total = total and segment together.
  void (*merge_state)(const AttentionBlock& block, const AttentionState& total, const AttentionState& segment);
  /// Writes the block's result: query row r to out + (r / group) * out_stride + (r % group) * head_dim.
  void (*finish)(const AttentionBlock& block, const AttentionState& state, float* out, std::size_t out_stride);
};

[[nodiscard]] const VectorKernels& vector_kernels(SimdLevel level);

}  // namespace ebb::kernels
