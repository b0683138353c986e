// The element types a model file may hold, and their block sizes. Layouts: GGUF block formats, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ebb {

enum class DType : std::uint8_t { F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS };
inline constexpr int kDTypeCount = 15;

struct DTypeInfo {
  std::string_view name;
  std::size_t block_values;  // values in one block along the row
  std::size_t block_bytes;   // bytes of one block
  std::uint32_t ggml_id;     // type id in GGUF files
};

[[nodiscard]] const DTypeInfo& dtype_info(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_ggml_id(std::uint32_t ggml_id);
/// Case-insensitive: "q4_k", "BF16".
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);

/// Bytes of a row of `values` elements; values must be a multiple of the block.
[[nodiscard]] inline std::size_t row_bytes(DType dtype, std::size_t values) {
  const DTypeInfo& info = dtype_info(dtype);
  return values / info.block_values * info.block_bytes;
}

}  // namespace ebb
