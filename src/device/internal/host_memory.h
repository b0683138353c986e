// What the operating system says about this machine's memory.
#pragma once

#include <cstddef>

namespace ebb::device {

struct HostMemory {
  std::size_t total_bytes = 0;
  std::size_t available_bytes = 0;  // what can be had without swapping; 0 where the system does not tell
};

/// /proc/meminfo, held to the cgroup's limit where one is set. Costs a few system calls.
[[nodiscard]] HostMemory read_host_memory();

}  // namespace ebb::device
