// Products of 1 to 8 rows of activations with packed matrices on a card, as a step of decode has them: the contract of
// kernels/matmul.h in both its arithmetics, y[t, r] = sum_c x[t, c] w[r, c], on addresses of the device. Weights are read from the
// file's blocks and dequantised exactly; sums are float32. Quantized: x is taken as kernels/matmul.h says, by each block that reads
// it, and sums of 16 columns are integers. The order of summation depends on cols alone: a row of y depends on its row of x alone,
// bit for bit, in any batch and beside any other product. matvec_error() bounds what the order costs.
// Refuses nothing that matmul takes but alignment: matrices start at 16 bytes (units of weights/ at 64), and up to 3 bytes past the
// last block may be read. Called from the thread that runs the pass; the work is queued, not awaited.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cuda/loaded_code.h"
#include "kernels/matmul.h"

namespace ebb::kernels::cuda {

inline constexpr std::size_t kMatvecMaxRows = 8;

/// The largest |error| of a result over sum_c |x| (|w - offset| + |offset|), the offset being that of the formats with minima. Of
/// the warps that share a row (one, or two from 4,096 columns), a lane rounds 32 times a group of 1,024 columns and twice more for
/// the two offsets, its tree 5 times, the warps once. The sum of 16 x that an offset meets rounds 15 times before. Each rounding
/// is at most 2^-24 of a partial sum. Quantized rounds less often (the float of an integer sum, its scale and the sum: 3 a run,
/// twice that with an offset, two runs a group), and besides moves each x by half a step of its block, largest |x| / 16383 / 2.
[[nodiscard]] constexpr double matvec_error(std::size_t cols) {
  const std::size_t groups = (cols + 1023) / 1024;
  const std::size_t groups_of_a_warp = cols < 4096 ? groups : (groups + 1) / 2;
  return static_cast<double>(34 * groups_of_a_warp + 6 + 15) * 0x1p-24;
}

class Matvec {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<Matvec> find(const LoadedCode& code);

  /// All products on one input; those of one type that stand together share a launch.
  /// Shape   x [rows, cols] f32, rows <= kMatvecMaxRows; every w.cols is cols, a multiple of its type's block; y as in matmul.h.
  /// Errors  DeviceLost; Io when the driver refuses a launch.
  [[nodiscard]] Status run(device::Stream stream, Arithmetic arithmetic, const float* x, std::size_t rows, std::size_t cols,
                           std::span<const MatmulProduct> products) const;

 private:
  static constexpr std::size_t kWidths = 3;  // kernels for 1, 2 and 4 rows of x

  using Kernels = std::array<std::array<device::cuda::Kernel, kWidths>, kDTypeCount>;

  explicit Matvec(device::CudaDevice& device) : device_(&device) {}
  [[nodiscard]] Status launch(device::Stream stream, Arithmetic arithmetic, const float* x, std::size_t rows, std::size_t cols,
                              std::span<const MatmulProduct> products) const;

  device::CudaDevice* device_;
  Kernels exact_{};
  Kernels quantized_{};
};

}  // namespace ebb::kernels::cuda
