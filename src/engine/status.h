// Memory as plain numbers for whoever shows it: devices, kinds, owners. One snapshot, so the parts add up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ebb::engine {

struct DeviceStatus {
  std::size_t index = 0;
  std::string name;
  std::string backend;  // "host", "fake"
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t used_by_us_bytes = 0;  // pages this process holds there, by the device's own count
  std::size_t pool_bytes = 0;        // of those, held ready by the pool
  std::vector<std::pair<std::string, std::size_t>> kinds;  // tag and bytes, every tag
};

struct ConversationStatus {
  std::uint64_t id = 0;
  std::size_t tokens = 0;
  std::size_t bytes = 0;
};

struct MemoryStatus {
  std::vector<DeviceStatus> devices;
  std::vector<std::pair<std::string, std::size_t>> host_kinds;  // mapped_file and the like
  std::vector<ConversationStatus> conversations;
};

/// The devices a spec names ("cpu", "fake:16GiB"), without loading anything.
struct DeviceListing {
  std::string name;
  std::string backend;
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t page_bytes = 0;
};
[[nodiscard]] Result<std::vector<DeviceListing>> list_devices(const std::string& spec, std::size_t fake_page_bytes);

}  // namespace ebb::engine
