// The kernels of this binary on one card: loads the embedded code through the driver and hands out kernels by name.
// Refuses a build without GPU code and a card for which none was compiled. One object a device, opened by whoever computes
// on it; the launchers of kernels/cuda take it. The driver brings a kernel onto the card at its first use.
// Invariant: a kernel that was handed out stays valid as long as the object.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cuda/cuda_device.h"

namespace ebb::kernels::cuda {

/// Threads   any, after load().
class LoadedCode {
 public:
  /// `device` outlives the object.
  /// Errors   Unsupported: no GPU code in this build, or none for this card; DeviceLost; what the driver says.
  [[nodiscard]] static Result<std::unique_ptr<LoadedCode>> load(device::CudaDevice& device);
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;
  ~LoadedCode();

  /// The kernel `name` of src/kernels/cuda/<source>.cu. Errors: Unsupported: not for this card.
  [[nodiscard]] Result<device::cuda::Kernel> find(std::string_view source, const char* name) const;
  [[nodiscard]] device::CudaDevice& device() const { return device_; }

 private:
  explicit LoadedCode(device::CudaDevice& device) : device_(device) {}

  device::CudaDevice& device_;
  std::vector<std::pair<std::string_view, device::cuda::Library>> libraries_;
};

}  // namespace ebb::kernels::cuda
