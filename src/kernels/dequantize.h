// Packed rows to float32, exactly as the block formats define them (docs: GGUF block layouts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensor_view.h"

namespace ebb::kernels {

/// out[c] = value of column c of row `row_idx`. Shape: out [w.cols] f32.
void dequantize_row(const TensorView& w, std::size_t row_idx, std::span<float> out);

/// One row a token, scaled: out[t, :] = scale * table[ids[t], :]. Shape: out [ids.size(), table.cols] f32.
void embed_rows(const TensorView& table, std::span<const std::int32_t> ids, float scale, float* out);

}  // namespace ebb::kernels
