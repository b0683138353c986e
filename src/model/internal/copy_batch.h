// Copies on the copy streams of several devices that count as one: behind all that was computed before, and waited for
// together.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace ebb::model {

class CopyBatch {
 public:
  /// Starts a copy by `device`. Errors: Io, DeviceLost; wait() before either side is given up.
  [[nodiscard]] Status add(device::Device& device, void* target, const void* source, std::size_t bytes);
  /// Returns when no copy runs any more, also after a failed add(). Errors: DeviceLost.
  [[nodiscard]] Status wait();

 private:
  std::vector<device::Device*> devices_;
};

}  // namespace ebb::model
