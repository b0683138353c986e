// Devices by their spec, with the settings of fake ones taken from the environment (EBB_FAKE).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace ebb::engine {

/// Errors   InvalidArgument: what was found and what is accepted. OutOfMemory, Io.
[[nodiscard]] Result<std::vector<std::unique_ptr<device::Device>>> open_device_list(const std::string& spec,
                                                                                    std::size_t fake_page_bytes);

}  // namespace ebb::engine
