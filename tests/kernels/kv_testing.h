// Keys and values of one layer in memory of their own, with a layout that has runs and padding; and plain rounding to
// each type, one value after the other, to hold kv_store and attention against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/attention.h"

namespace ebb::kernels {

constexpr KvType kKvTypes[] = {KvType::F32, KvType::F16, KvType::BF16, KvType::Q8_0, KvType::Q4_0};

inline bool in_blocks(KvType type) { return type == KvType::Q8_0 || type == KvType::Q4_0; }

/// A half, the largest finite one at most.
inline std::uint16_t saturated_half(float value) {
  if (std::isnan(value)) return 0x7e00;
  return float_to_f16(std::clamp(value, -65504.0f, 65504.0f));
}

/// The 32 values of a block as they are stored: the definitions of the formats, value by value.
inline std::vector<float> rounded_block(const float* x, KvType type) {
  std::vector<float> stored(kKvBlock);
  float extreme = 0;
  bool finite = true;
  for (std::size_t i = 0; i < kKvBlock; ++i) {
    finite = finite && std::isfinite(x[i]);
    if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
  }
  if (!finite) return std::vector<float>(kKvBlock, std::numeric_limits<float>::quiet_NaN());
  const float scale = type == KvType::Q8_0 ? std::abs(extreme) / 127 : extreme / -8;
  const float stored_scale = f16_to_float(saturated_half(scale));
  for (std::size_t i = 0; i < kKvBlock && stored_scale != 0; ++i) {
    const float scaled = x[i] * (1 / scale);
    const float steps = type == KvType::Q8_0 ? std::nearbyint(scaled) : std::min(std::floor(scaled + 8.5f), 15.0f) - 8;
    stored[i] = steps * stored_scale;
  }
  return stored;
}

/// Values as a cache of the type holds them; for types in blocks `values` is whole blocks.
inline std::vector<float> as_stored(std::vector<float> values, KvType type) {
  if (type == KvType::F32) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == KvType::F16) values[i] = f16_to_float(saturated_half(values[i]));
    if (type == KvType::BF16) values[i] = bf16_to_float(float_to_bf16(values[i]));
    if (in_blocks(type) && i % kKvBlock == 0) {
      const std::vector<float> block = rounded_block(&values[i], type);
      std::copy(block.begin(), block.end(), values.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return values;
}

/// Value `e` of a stored row.
inline float read_stored(const std::byte* row, KvType type, std::size_t e) {
  const auto half_at = [row](std::size_t byte) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, row + byte, sizeof bits);
    return bits;
  };
  const std::size_t in_block = e % kKvBlock;
  switch (type) {
    case KvType::F32: {
      float value = 0;
      std::memcpy(&value, row + e * sizeof value, sizeof value);
      return value;
    }
    case KvType::F16:
      return f16_to_float(half_at(2 * e));
    case KvType::BF16:
      return bf16_to_float(half_at(2 * e));
    case KvType::Q8_0: {
      const std::size_t block = e / kKvBlock * 34;
      return f16_to_float(half_at(block)) * static_cast<float>(static_cast<std::int8_t>(row[block + 2 + in_block]));
    }
    case KvType::Q4_0: {
      const std::size_t block = e / kKvBlock * 18;
      const auto two = static_cast<unsigned>(row[block + 2 + in_block % 16]);
      return f16_to_float(half_at(block)) * (static_cast<float>(in_block < 16 ? two & 15u : two >> 4) - 8);
    }
  }
  return 0;
}

/// How far a value of a block may be stored from where it was. Half a step for rounding. The scale was rounded to a
/// half, by at most 2^-11 of itself or 2^-25 where the half is subnormal, and a value has up to `steps` of it. Q4_0 has
/// no step +8: what is opposite in sign to the extreme and as large loses up to one step instead of a half. The last
/// term is for the float32 arithmetic of the quantiser.
inline double block_error(const float* x, KvType type) {
  double largest = 0;
  for (std::size_t i = 0; i < kKvBlock; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  const double steps = type == KvType::Q8_0 ? 127 : 8;
  const double scale = largest / steps;
  const double rounding = type == KvType::Q8_0 ? 0.5 : 1.0;
  return rounding * scale + steps * std::max(scale * 0x1p-11, 0x1p-25) + largest * 0x1p-20;
}

class KvMemory {
 public:
  /// `run_tokens` slots of one head lie together; the bytes start as garbage (0xfe: huge floats), as recycled pages do.
  KvMemory(KvTypes types, std::size_t slots, std::size_t run_tokens, std::size_t kv_heads, std::size_t head_dim) {
    view_.types = types;
    view_.slots = slots;
    view_.run_tokens = run_tokens;
    view_.k_head_stride_bytes = run_tokens * kv_row_bytes(types.k, head_dim);
    view_.v_head_stride_bytes = run_tokens * kv_row_bytes(types.v, head_dim);
    view_.run_stride_bytes = kv_heads * std::max(view_.k_head_stride_bytes, view_.v_head_stride_bytes) + 64;
    const std::size_t bytes = (slots + run_tokens - 1) / run_tokens * view_.run_stride_bytes;
    k_.assign(bytes, std::byte{0xfe});
    v_.assign(bytes, std::byte{0xfe});
    view_.k = k_.data();
    view_.v = v_.data();
  }
  [[nodiscard]] const KvView& view() const { return view_; }

 private:
  std::vector<std::byte> k_;
  std::vector<std::byte> v_;
  KvView view_;
};

}  // namespace ebb::kernels
