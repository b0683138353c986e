// The one shape that every block-quantised type takes: small integers, a scale for each 32 of them, and for some types an
// offset. Sub-block scales of 16 values are folded into the integers; the product is at most 4096, so 16 bits hold it.
//   y[i] = scale[i / 32] * q[i] + offset[i / offset_values]
// All three terms are exact in float32, so y has one rounding, the same as the formats' own formulas.
// Clear scalar code for all types; the fast unpackers are held to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ebb::kernels {

inline constexpr std::size_t kMaxBlockValues = 256;

struct IntegerBlock {
  std::int16_t q[kMaxBlockValues];
  float scale[kMaxBlockValues / 32];
  float offset[kMaxBlockValues / 16];  // the first block_values / offset_values are set
};

/// Values that share one offset: 16 or 32, or 0 where the type has none (and for F32, F16, BF16).
[[nodiscard]] std::size_t offset_values(DType dtype);

/// One block of a block-quantised `dtype` (not F32, F16, BF16).
/// Source  docs of the GGUF block formats; test vectors in tests/kernels/dequantize_test.cpp.
void decode_block(DType dtype, const std::byte* block, IntegerBlock& out);

}  // namespace ebb::kernels
