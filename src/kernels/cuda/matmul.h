// Products of many rows of activations with packed weights on a card: y[t, r] = sum_c x[t, c] w[r, c], the contract of
// kernels/matmul.h. Weights stay packed; a block of threads dequantises the columns it is working on, and nothing else.
// Called for prompts, from the thread that runs the pass; the work is queued, not awaited.
// Invariant: a row of y depends on its row of x alone, bit for bit, however many rows came with it.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/error.h"
#include "kernels/cuda/loaded_code.h"
#include "kernels/matmul.h"

namespace ebb::kernels::cuda {

/// The largest error of y over sum |x w|, in unit roundings (2^-24).
/// Exact      one rounding a column, in its fused multiply-add, and one of each weight with an offset.
/// Quantized  each number is two bf16: within 2^-16 of it; the product of both second parts, at most 2^-16, is left out: 3 2^-16
///            in all. The matrix units take 16 columns three times and may cut each of 16 products and the sum before at 2^-23
///            of the largest, then the result: 3 (18 2^-23) for 16 columns. On cards below compute capability 8.0: as Exact.
[[nodiscard]] constexpr double matmul_error(Arithmetic arithmetic, std::size_t cols) {
  if (arithmetic == Arithmetic::Exact) return static_cast<double>(cols) + 1;
  const std::size_t sixteens = (cols + 15) / 16;
  return 3 * 0x1p8 + 3 * 18 * 2 * static_cast<double>(sixteens) + 1;
}

class Matmul {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<Matmul> find(const LoadedCode& code);

  /// Runs all products on one input. In Quantized arithmetic an infinite number, or one that rounds to infinity in bf16, gives NaN.
  /// Shape   x [rows, cols] f32; each w [w.rows, cols], 16-byte aligned; all addresses of the device; rows, cols and w.rows below
  ///         2^22.
  /// Errors  DeviceLost; Io when the driver refuses the launch.
  [[nodiscard]] Status run(device::Stream stream, Arithmetic arithmetic, const float* x, std::size_t rows, std::size_t cols,
                           std::span<const MatmulProduct> products) const;

 private:
  explicit Matmul(device::CudaDevice& device) : device_(&device) {}

  using ByType = std::array<device::cuda::Kernel, kDTypeCount>;

  device::CudaDevice* device_;
  ByType exact_{};
  ByType split_{};       // in tiles of 64
  ByType wide_split_{};  // of 128
};

}  // namespace ebb::kernels::cuda
