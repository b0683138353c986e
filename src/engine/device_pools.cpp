#include "engine/internal/device_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "device/host/host_device.h"
#include "engine/internal/device_list.h"

namespace ebb::engine {
namespace {

Result<std::optional<std::size_t>> budget_of(const std::vector<MemoryLimit>& limits, std::size_t device_idx,
                                             device::Device& device) {
  if (limits.empty()) return std::optional<std::size_t>();
  const MemoryLimit& limit = limits.size() == 1 ? limits.front() : limits[device_idx];
  std::size_t bytes = limit.bytes;
  if (limit.share) {
    EBB_TRY_ASSIGN(const device::MemInfo info, device.mem_info());
    bytes = static_cast<std::size_t>(static_cast<double>(info.total_bytes) * *limit.share);
  }
  if (bytes < device.page_bytes()) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("a memory limit of {} for device {} is less than one of its pages ({}); give it more, such as 4GiB",
                            format_bytes(bytes), device_idx, format_bytes(device.page_bytes())));
  }
  return std::optional<std::size_t>(bytes / device.page_bytes() * device.page_bytes());
}

}  // namespace

Result<std::unique_ptr<DevicePools>> DevicePools::open(const EngineOptions& options) {
  std::unique_ptr<DevicePools> pools(new DevicePools());
  EBB_TRY_ASSIGN(pools->devices_, open_device_list(options.devices, options.fake_page_bytes));
  const std::vector<MemoryLimit>& limits = options.memory.memory_limit;
  if (limits.size() > 1 && limits.size() != pools->devices_.size()) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{} memory limits for {} devices; give one for all, or one for each",
                                                        limits.size(), pools->devices_.size()));
  }
  for (std::size_t device_idx = 0; device_idx < pools->devices_.size(); ++device_idx) {
    device::Device& device = *pools->devices_[device_idx];
    EBB_TRY_ASSIGN(const std::optional<std::size_t> budget, budget_of(limits, device_idx, device));
    pools->budgets_.push_back(budget);
    pools->pools_.push_back(std::make_unique<memory::PagePool>(device, pools->ledger_));
    pools->pools_.back()->set_limit(budget);
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
