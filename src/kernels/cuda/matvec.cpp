#include "kernels/cuda/matvec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/cuda/internal/matvec_arguments.h"

namespace ebb::kernels::cuda {
namespace {

constexpr std::size_t kVectorBytes = 16;     // of the widest load
constexpr std::size_t kSplitColumns = 4096;  // from here on two warps share a row; matvec_error() knows
constexpr std::size_t kFewBlocks = 128;      // below it, smaller blocks for more multiprocessors, each with its own x
constexpr std::size_t kMostBlocks = 1024;    // past it, blocks go on to further rows and keep their x
constexpr std::size_t kSmallestBlock = 128;  // threads

bool is_aligned(const void* address, std::size_t row_bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % kVectorBytes == 0 && row_bytes % kVectorBytes == 0;
}

}  // namespace

Result<Matvec> Matvec::find(const LoadedCode& code) {
  Matvec matvec(code.device());
  for (std::size_t type = 0; type < kDTypeCount; ++type) {
    for (std::size_t width = 0; width < kWidths; ++width) {
      const DTypeInfo& info = dtype_info(static_cast<DType>(type));
      const std::string exact = fmt::format("matvec_{}_{}", info.name, 1 << width);
      EBB_TRY_ASSIGN(matvec.exact_[type][width], code.find("matvec", exact.c_str()));
      if (info.block_values == 1) {
        matvec.quantized_[type][width] = matvec.exact_[type][width];
        continue;
      }
      const std::string quantized = fmt::format("matvec_{}_quantized_{}", info.name, 1 << width);
      EBB_TRY_ASSIGN(matvec.quantized_[type][width], code.find("matvec", quantized.c_str()));
    }
  }
  return matvec;
}

Status Matvec::launch(device::Stream stream, Arithmetic arithmetic, const float* x, std::size_t rows, std::size_t cols,
                      std::span<const MatmulProduct> products) const {
  const DType dtype = products.front().w.dtype;
  const std::size_t width = std::min<std::size_t>(rows - 1, kWidths - 1);
  const std::size_t token_batches = div_up(rows, std::size_t{1} << width);
  MatvecArguments in{};
  in.x = x;
  in.tokens = static_cast<unsigned>(rows);
  in.cols = static_cast<unsigned>(cols);
  in.splits = cols < kSplitColumns ? 1 : 2;
  in.product_count = static_cast<unsigned>(products.size());
  in.x_is_aligned = is_aligned(x, cols * sizeof(float));
  const unsigned rows_of_warp =
      rows == 1 && dtype_info(dtype).block_values > 1 ? MatvecShape<1, true>::kRowsOfAWarp : MatvecShape<1, false>::kRowsOfAWarp;
  std::size_t all_rows = 0;
  for (const MatmulProduct& product : products) all_rows += product.w.rows;
  const auto rows_of_block = [&](std::size_t threads) { return threads / 32 / in.splits * rows_of_warp; };
  std::size_t threads = kMatvecMaxThreads;
  while (threads > kSmallestBlock && div_up(all_rows, rows_of_block(threads)) * token_batches < kFewBlocks) threads /= 2;
  std::size_t batches = 0;
  for (std::size_t p = 0; p < products.size(); ++p) {
    const TensorView& w = products[p].w;
    batches += div_up(w.rows, rows_of_block(threads));
    in.products[p] = {reinterpret_cast<const unsigned char*>(w.data),
                      products[p].y,
                      w.row_bytes(),
                      products[p].y_stride,
                      static_cast<unsigned>(w.rows),
                      static_cast<unsigned>(batches),
                      is_aligned(w.data, w.row_bytes())};
  }
  const std::size_t blocks = std::min(batches, kMostBlocks) * token_batches;
  const Kernels& kernels = arithmetic == Arithmetic::Exact ? exact_ : quantized_;
  std::array<void*, 1> arguments = {&in};
  EBB_TRY(device_->enter());
  return device_->check(
      device_->driver().launch(kernels[static_cast<std::size_t>(dtype)][width], static_cast<unsigned>(blocks), 1, 1,
                               static_cast<unsigned>(threads), 1, 1, 0, device_->stream(stream), arguments.data(), nullptr),
      "launch matvec");
}

Status Matvec::run(device::Stream stream, Arithmetic arithmetic, const float* x, std::size_t rows, std::size_t cols,
                   std::span<const MatmulProduct> products) const {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  EBB_CHECK(rows <= kMatvecMaxRows && cols <= kMost, "{} rows of {}", rows, cols);
  if (rows == 0) return {};
  for (std::size_t first = 0, end = 0; first < products.size(); first = end) {
    const DType dtype = products[first].w.dtype;
    for (; end < products.size() && end - first < kMatvecProducts && products[end].w.dtype == dtype; ++end) {
      const TensorView& w = products[end].w;
      EBB_CHECK(w.cols == cols && w.rows > 0 && w.rows <= kMost && cols % dtype_info(dtype).block_values == 0,
                "{} by {} {} on {} columns", w.rows, w.cols, dtype_info(dtype).name, cols);
      EBB_CHECK(reinterpret_cast<std::uintptr_t>(w.data) % kVectorBytes == 0, "a matrix is not aligned");
    }
    EBB_TRY(launch(stream, arithmetic, x, rows, cols, products.subspan(first, end - first)));
  }
  return {};
}

}  // namespace ebb::kernels::cuda
