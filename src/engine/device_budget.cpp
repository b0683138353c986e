#include "engine/internal/device_budget.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace ebb::engine {

Result<std::vector<std::optional<std::size_t>>> device_budgets(const std::vector<MemoryLimit>& limits,
                                                               std::span<const std::unique_ptr<device::Device>> devices) {
  if (limits.size() > 1 && limits.size() != devices.size()) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{} memory limits for {} devices; give one for all, or one for each",
                                                        limits.size(), devices.size()));
  }
  std::vector<std::optional<std::size_t>> budgets(devices.size());
  if (limits.empty()) return budgets;
  for (std::size_t device_idx = 0; device_idx < devices.size(); ++device_idx) {
    device::Device& device = *devices[device_idx];
    const MemoryLimit& limit = limits.size() == 1 ? limits.front() : limits[device_idx];
    std::size_t bytes = limit.bytes;
    if (limit.share) {
      EBB_TRY_ASSIGN(const device::MemInfo info, device.mem_info());
      bytes = static_cast<std::size_t>(static_cast<double>(info.total_bytes) * *limit.share);
    }
    const std::size_t page = device.page_bytes();
    if (bytes < page) {
      return fail(ErrorCode::InvalidArgument,
                  fmt::format("a memory limit of {} for device {} is less than one of its pages ({}); give it more, such as 4GiB",
                              format_bytes(bytes), device_idx, format_bytes(page)));
    }
    budgets[device_idx] = bytes / page * page;
  }
  return budgets;
}

}  // namespace ebb::engine
