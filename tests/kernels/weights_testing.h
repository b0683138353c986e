// Random matrices of every type that a model file may hold, for tests of what reads packed blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"

namespace ebb::kernels {

/// Byte offsets of a block's half-precision fields, scales first.
inline std::vector<std::size_t> scale_fields(DType dtype) {
  switch (dtype) {
    case DType::Q4_1:
    case DType::Q5_1:
    case DType::Q4_K:
    case DType::Q5_K:
      return {0, 2};
    case DType::Q2_K:
      return {80, 82};
    case DType::Q3_K:
      return {108};
    case DType::Q6_K:
      return {208};
    default:
      return {0};
  }
}

/// Any bits in the quants, numbers near 0.05 in the scales. `rows * cols` values, cols whole blocks.
inline std::vector<std::byte> random_weights(DType dtype, std::size_t rows, std::size_t cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<std::byte> bytes(rows * row_bytes(dtype, cols));
  const DTypeInfo& info = dtype_info(dtype);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xffu);
  for (std::size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    const float value = normal(random);
    if (dtype == DType::F32) {
      std::memcpy(&bytes[at], &value, sizeof(value));
      continue;
    }
    for (const std::size_t field : scale_fields(dtype)) {
      const std::uint16_t bits = dtype == DType::BF16 ? float_to_bf16(value) : float_to_f16(field == 0 ? value : normal(random));
      std::memcpy(&bytes[at + field], &bits, sizeof(bits));
    }
  }
  return bytes;
}

}  // namespace ebb::kernels
