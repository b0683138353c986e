// The user's memory limits as bytes by device.
// Called wherever devices are opened.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/memory_options.h"

namespace ebb::engine {

/// Whole pages by device; nothing where there is no limit.
/// Errors   InvalidArgument: more limits than devices, or a limit of less than a page; what mem_info() says.
[[nodiscard]] Result<std::vector<std::optional<std::size_t>>> device_budgets(
    const std::vector<MemoryLimit>& limits, std::span<const std::unique_ptr<device::Device>> devices);

}  // namespace ebb::engine
