#include "kernels/cuda/matmul.h"

#include <string>

#include "base/bytes.h"
#include "base/check.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kTile = 64;  // rows of w and of x that a block has
constexpr std::size_t kWideTile = 128;
constexpr std::size_t kMatmulThreads = 256;
constexpr std::size_t kMaxSide = std::size_t{1} << 22;  // a grid's second side has at most 65,535 blocks

}  // namespace

Result<Matmul> Matmul::find(const LoadedCode& code) {
  Matmul matmul(code.device());
  for (std::size_t i = 0; i < matmul.exact_.size(); ++i) {
    const std::string type(dtype_info(static_cast<DType>(i)).name);
    EBB_TRY_ASSIGN(matmul.exact_[i], code.find("matmul", ("matmul_exact_" + type).c_str()));
    EBB_TRY_ASSIGN(matmul.split_[i], code.find("matmul", ("matmul_split_64_" + type).c_str()));
    EBB_TRY_ASSIGN(matmul.wide_split_[i], code.find("matmul", ("matmul_split_128_" + type).c_str()));
  }
  return matmul;
}

Status Matmul::run(device::Stream stream, Arithmetic arithmetic, const float* x, std::size_t rows, std::size_t cols,
                   std::span<const MatmulProduct> products) const {
  EBB_CHECK(rows < kMaxSide && cols < kMaxSide, "{} rows of {}", rows, cols);
  if (rows == 0) return {};
  EBB_TRY(device_->enter());
  const bool is_wide = arithmetic == Arithmetic::Quantized && rows > kTile;
  const ByType& kernels = arithmetic == Arithmetic::Exact ? exact_ : is_wide ? wide_split_ : split_;
  const std::size_t tile = is_wide ? kWideTile : kTile;
  auto row_count = static_cast<unsigned>(rows);
  auto col_count = static_cast<unsigned>(cols);
  for (const MatmulProduct& product : products) {
    EBB_CHECK(product.w.cols == cols && cols % dtype_info(product.w.dtype).block_values == 0 && product.w.rows < kMaxSide - kWideTile,
              "weights of {} x {} on {} columns", product.w.rows, product.w.cols, cols);
    if (product.w.rows == 0) continue;
    const std::byte* w = product.w.data;
    auto w_rows = static_cast<unsigned>(product.w.rows);
    float* y = product.y;
    std::size_t y_stride = product.y_stride;
    std::array<void*, 7> arguments = {&x, &row_count, &col_count, &w, &w_rows, &y, &y_stride};
    EBB_TRY(device_->check(
        device_->driver().launch(kernels[static_cast<std::size_t>(product.w.dtype)],
                                 static_cast<unsigned>(div_up(rows, tile)),
                                 static_cast<unsigned>(div_up(product.w.rows, tile)), 1, kMatmulThreads, 1, 1, 0,
                                 device_->stream(stream), arguments.data(), nullptr),
        "launch matmul"));
  }
  return {};
}

}  // namespace ebb::kernels::cuda
