// RMSNorm on a card: y = x * (mean(x^2) + eps)^-1/2 * w in float32, w already 1 + weight. As kernels/rms_norm.h, but the
// sum is float32 too: in each thread one after the other, then as a tree; rms_norm_error() bounds what that costs.
// A row depends on itself alone, bit for bit. Called from the thread that runs the pass; the work is queued, not awaited.
#pragma once

#include <array>
#include <cstddef>

#include "base/error.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels::cuda {

inline constexpr std::size_t kRmsNormThreads = 256;  // of a block, which has one row

/// The largest relative error of a result, in float32's unit roundings (2^-24). A thread adds n = cols / 256 squares, rounded
/// up to whole vectors of four, the tree 8 more; mean and eps round twice. All terms are positive, so the errors add, and the
/// root halves them: (n + 10) / 2. Root, quotient and two products round once each.
[[nodiscard]] constexpr double rms_norm_error(std::size_t cols) {
  const std::size_t vectors = (cols + 4 * kRmsNormThreads - 1) / (4 * kRmsNormThreads);
  return (static_cast<double>(4 * vectors) + 10) / 2 + 4;
}

class RmsNorm {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<RmsNorm> find(const LoadedCode& code);

  /// Shape   x, y [rows, cols] f32 (may be the same), w [cols] f32, all addresses of the device; rows, cols < 2^31.
  /// Errors  DeviceLost; Io when the driver refuses the launch.
  [[nodiscard]] Status run(device::Stream stream, const float* x, const float* w, float eps, std::size_t rows, std::size_t cols,
                           float* y) const;

  /// The end of a branch and the start of the next: x += RMSNorm(branch; w_post), then y = RMSNorm(x; w_next).
  /// Shape   x, branch, y [rows, cols] f32, y none of the others; w_post, w_next [cols] f32. Errors: as run().
  [[nodiscard]] Status run_residual(device::Stream stream, float* x, const float* branch, const float* w_post, const float* w_next,
                                    float eps, std::size_t rows, std::size_t cols, float* y) const;

 private:
  struct ByWidth {
    std::array<device::cuda::Kernel, 4> vectors{};  // at most 1, 2, 4, 8 vectors of four a thread
    device::cuda::Kernel any = nullptr;
  };

  explicit RmsNorm(device::CudaDevice& device) : device_(&device) {}
  [[nodiscard]] Status launch(device::Stream stream, const ByWidth& kernels, bool is_aligned, std::size_t rows, std::size_t cols,
                              void** arguments) const;

  device::CudaDevice* device_;
  ByWidth norm_;
  ByWidth residual_;
};

}  // namespace ebb::kernels::cuda
