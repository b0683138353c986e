// A tensor somebody else owns. Row-major, slowest dimension first; the last dimension holds the blocks.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace ebb {

/// A matrix of `rows` rows with `cols` values each, rows contiguous. A vector is one row.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::F32;
  std::size_t rows = 0;
  std::size_t cols = 0;

  [[nodiscard]] std::size_t row_bytes() const { return ebb::row_bytes(dtype, cols); }
  [[nodiscard]] std::size_t bytes() const { return rows * row_bytes(); }
  [[nodiscard]] const std::byte* row(std::size_t row_idx) const { return data + row_idx * row_bytes(); }
};

}  // namespace ebb
