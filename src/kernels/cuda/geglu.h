// The gated activation on a card: y = gelu_tanh(gate) * up, as kernels/geglu.h. Called from the thread that runs the pass;
// the work is queued, not awaited. A number depends on its own gate and up alone.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "kernels/cuda/loaded_code.h"

namespace ebb::kernels::cuda {

/// The largest error of y over |gate * up|, in float32's unit roundings (2^-24). With s = 1 / (1 + e^-2t), y = gate s up. An
/// error d of e^-2t moves s by s (1 - s) d. The exponent has five roundings and two constants', at most 7 of 2t, and
/// 2t s (1 - s) is at most 0.224: 1.6. expf is right to 2 ulp, at most 4 unit roundings, and s (1 - s) at most 1/4: 1.
/// Sum, quotient and product round once each. Where e^-2t overflows, y is 0 and gate * up * 2^-128 away from right.
inline constexpr double kGegluError = 1.6 + 1 + 3;

class Geglu {
 public:
  /// `code` outlives the object.
  [[nodiscard]] static Result<Geglu> find(const LoadedCode& code);

  /// Shape   gate, up, y [rows, cols] f32 on the card; y may be gate or up; rows * cols < 2^38.
  /// Errors  DeviceLost; Io when the driver refuses the launch.
  [[nodiscard]] Status run(device::Stream stream, const float* gate, const float* up, std::size_t rows, std::size_t cols,
                           float* y) const;

 private:
  explicit Geglu(device::CudaDevice& device) : device_(&device) {}

  device::CudaDevice* device_;
  device::cuda::Kernel vectors_ = nullptr;
  device::cuda::Kernel any_ = nullptr;
};

}  // namespace ebb::kernels::cuda
