#include "model/internal/copy_batch.h"

#include <algorithm>
#include <utility>

namespace ebb::model {

Status CopyBatch::add(device::Device& device, void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return {};
  if (std::find(devices_.begin(), devices_.end(), &device) == devices_.end()) {
    // Orders the copies behind the last step's stores, which went to the compute stream.
    EBB_TRY_ASSIGN(const device::Fence stored, device.fence(device::Stream::Compute));
    EBB_TRY(device.wait(stored));
    devices_.push_back(&device);
  }
  return device.copy(device::Stream::Copy, target, source, bytes);
}

Status CopyBatch::wait() {
  Status outcome;
  for (device::Device* device : devices_) {
    const Result<device::Fence> copied = device->fence(device::Stream::Copy);
    Status waited = copied ? device->wait(*copied) : tl::unexpected<Error>(copied.error());
    if (outcome) outcome = std::move(waited);
  }
  devices_.clear();
  return outcome;
}

}  // namespace ebb::model
