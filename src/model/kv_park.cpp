// The half of KvCache that goes to host memory and comes back: regions first, then copies, and only when all have
// arrived is the other side given up.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "memory/page_pool.h"
#include "model/kv_cache.h"

namespace ebb::model {

Status KvCache::open_parked(std::size_t tokens) {
  for (Range& range : ranges_) {
    const std::size_t bytes = range.layout.bytes(tokens);
    if (range.home == pools_.host || bytes == 0) continue;
    EBB_TRY_ASSIGN(range.parked, memory::Region::reserve(*pools_.host, memory::Tag::Parked, owner_, bytes));
    EBB_TRY(range.parked.resize(bytes));
  }
  return {};
}

void KvCache::drop_parked() {
  for (Range& range : ranges_) range.parked = memory::Region();
}

Status KvCache::copy_parked(Way way) {
  std::vector<device::Device*> devices;
  Status outcome;
  for (Range& range : ranges_) {
    const std::size_t bytes = range.layout.bytes(length_);
    if (range.home == pools_.host || bytes == 0 || !outcome) continue;
    device::Device& device = range.home->device();
    if (std::find(devices.begin(), devices.end(), &device) == devices.end()) {
      devices.push_back(&device);
      // Orders the copies behind the last step's stores, which went to the compute stream.
      const Result<device::Fence> stored = device.fence(device::Stream::Compute);
      outcome = stored ? device.wait(*stored) : tl::unexpected<Error>(stored.error());
      if (!outcome) continue;
    }
    std::byte* to = (way == Way::Out ? range.parked : range.region).data();
    const std::byte* from = (way == Way::Out ? range.region : range.parked).data();
    outcome = device.copy(device::Stream::Copy, to, from, bytes);
  }
  // Also after a failure: the copies before it may still be running, and their targets are about to be given up.
  for (device::Device* device : devices) {
    const Result<device::Fence> copied = device->fence(device::Stream::Copy);
    Status waited = copied ? device->wait(*copied) : tl::unexpected<Error>(copied.error());
    if (outcome) outcome = std::move(waited);
  }
  return outcome;
}

Status KvCache::park() {
  if (parked_) return {};
  Status moved = open_parked(length_);
  if (moved) moved = copy_parked(Way::Out);
  if (!moved) {
    drop_parked();
    return moved;
  }
  for (Range& range : ranges_) {
    if (range.home == pools_.host) continue;
    EBB_CHECK(range.region.resize(0).has_value(), "{} bytes of a parked range did not shrink", range.region.committed_bytes());
  }
  parked_ = true;
  return {};
}

Status KvCache::restore() {
  if (!parked_) return {};
  Status moved;
  for (Range& range : ranges_) {
    if (range.home != pools_.host && moved) moved = range.region.resize(range.layout.bytes(length_));
  }
  if (moved) moved = copy_parked(Way::Back);
  if (!moved) {
    for (Range& range : ranges_) {
      if (range.home == pools_.host) continue;
      EBB_CHECK(range.region.resize(0).has_value(), "{} bytes of a parked range did not shrink", range.region.committed_bytes());
    }
    return moved;
  }
  drop_parked();
  parked_ = false;
  return {};
}

}  // namespace ebb::model
