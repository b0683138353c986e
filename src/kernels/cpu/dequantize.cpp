#include "kernels/dequantize.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/cpu/internal/integer_block.h"

namespace ebb::kernels {
namespace {

std::uint16_t half_bits(const std::byte* row, std::size_t idx) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, row + 2 * idx, sizeof(bits));
  return bits;
}

void dequantize_blocks(DType dtype, const std::byte* row, std::span<float> out) {
  const DTypeInfo& info = dtype_info(dtype);
  const std::size_t per_offset = offset_values(dtype);
  IntegerBlock block;
  for (std::size_t first = 0; first < out.size(); first += info.block_values, row += info.block_bytes) {
    decode_block(dtype, row, block);
    for (std::size_t i = 0; i < info.block_values; ++i) {
      const float offset = per_offset == 0 ? 0.0F : block.offset[i / per_offset];
      out[first + i] = block.scale[i / 32] * static_cast<float>(block.q[i]) + offset;
    }
  }
}

}  // namespace

void dequantize_row(const TensorView& w, std::size_t row_idx, std::span<float> out) {
  EBB_CHECK(row_idx < w.rows && out.size() == w.cols, "row {} of {}, {} of {} columns", row_idx, w.rows, out.size(), w.cols);
  const std::byte* row = w.row(row_idx);
  switch (w.dtype) {
    case DType::F32: std::memcpy(out.data(), row, out.size_bytes()); return;
    case DType::F16:
      for (std::size_t c = 0; c < out.size(); ++c) out[c] = f16_to_float(half_bits(row, c));
      return;
    case DType::BF16:
      for (std::size_t c = 0; c < out.size(); ++c) out[c] = bf16_to_float(half_bits(row, c));
      return;
    default: dequantize_blocks(w.dtype, row, out);
  }
}

void embed_rows(const TensorView& table, std::span<const std::int32_t> ids, float scale, float* out) {
  for (const std::int32_t id : ids) {
    EBB_CHECK(id >= 0 && static_cast<std::size_t>(id) < table.rows, "token {} of {}", id, table.rows);
    const std::span<float> row(out, table.cols);
    dequantize_row(table, static_cast<std::size_t>(id), row);
    for (float& value : row) value *= scale;
    out += table.cols;
  }
}

}  // namespace ebb::kernels
