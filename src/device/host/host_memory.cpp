#include "device/internal/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/bytes.h"

namespace ebb::device {
namespace {

std::optional<std::size_t> read_number(const char* path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

}  // namespace

HostMemory read_host_memory() {
  HostMemory memory;
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::size_t value = 0;
  while (file >> key >> value) {
    std::getline(file, unit);
    if (key == "MemTotal:") memory.total_bytes = value * kKiB;
    if (key == "MemAvailable:") memory.available_bytes = value * kKiB;
  }
  const auto limit_bytes = read_number("/sys/fs/cgroup/memory.max");
  const auto current_bytes = read_number("/sys/fs/cgroup/memory.current");
  if (limit_bytes && current_bytes && *limit_bytes < memory.total_bytes) {
    memory.total_bytes = *limit_bytes;
    memory.available_bytes = std::min(memory.available_bytes, *limit_bytes - std::min(*limit_bytes, *current_bytes));
  }
  return memory;
}

}  // namespace ebb::device
