#include "engine/internal/device_pools.h"

#include <algorithm>
#include <utility>

#include "device/host/host_device.h"
#include "engine/internal/device_budget.h"
#include "engine/internal/device_list.h"

namespace ebb::engine {
Result<std::unique_ptr<DevicePools>> DevicePools::open(const EngineOptions& options) {
  std::unique_ptr<DevicePools> pools(new DevicePools());
  EBB_TRY_ASSIGN(pools->devices_, open_device_list(options.devices, options.fake_page_bytes));
  EBB_TRY_ASSIGN(pools->budgets_, device_budgets(options.memory.memory_limit, pools->devices_));
  for (std::size_t device_idx = 0; device_idx < pools->devices_.size(); ++device_idx) {
    device::Device& device = *pools->devices_[device_idx];
    pools->pools_.push_back(std::make_unique<memory::PagePool>(device, pools->ledger_));
    pools->pools_.back()->set_limit(pools->budgets_[device_idx]);
    pools->all_.push_back(pools->pools_.back().get());
    if (device.kind() == device::Kind::Host && pools->host_ == nullptr) pools->host_ = pools->pools_.back().get();
  }
  if (pools->host_ == nullptr) {
    EBB_TRY_ASSIGN(pools->host_device_, device::HostDevice::open());
    memory::PoolOptions pool_options;
    pool_options.ledger_device = memory::kHostMemory;
    pools->own_host_ = std::make_unique<memory::PagePool>(*pools->host_device_, pools->ledger_, pool_options);
    pools->host_ = pools->own_host_.get();
    pools->host_->set_limit(options.memory.host_limit_bytes);
    pools->all_.push_back(pools->host_);
  } else {
    pools->ledger_.set_limit(memory::kHostMemory, options.memory.host_limit_bytes);
  }
  return pools;
}

void DevicePools::set_ceiling(std::size_t device_idx, std::optional<std::size_t> bytes) {
  std::optional<std::size_t> limit = budgets_[device_idx];
  if (bytes) limit = std::min(limit.value_or(*bytes), *bytes);
  pools_[device_idx]->set_limit(limit);
}

memory::PagePool* DevicePools::by_ledger(std::size_t ledger_device) const {
  for (memory::PagePool* pool : all_) {
    if (pool->ledger_device() == ledger_device) return pool;
  }
  return nullptr;
}

std::size_t DevicePools::room(memory::PagePool& pool) const {
  const Result<device::MemInfo> info = pool.device().mem_info();
  if (!info) return 0;
  const memory::LedgerSnapshot snapshot = ledger_.snapshot();
  const auto& sums = snapshot.devices[pool.ledger_device()];
  const std::size_t held = sums.owned_bytes + sums.pooled_bytes;
  const std::size_t limit = sums.limit_bytes.value_or(info->total_bytes);
  return std::min(info->free_bytes + sums.pooled_bytes, limit - std::min(limit, held));
}

}  // namespace ebb::engine
