// The one line about memory that people know, from the devices' own counts.
#include <fmt/format.h>

#include "base/bytes.h"
#include "engine/status.h"

namespace ebb {

std::string gpu_memory(const engine::MemoryStatus& status) {
  std::string text;
  for (const engine::DeviceStatus& device : status.devices) {
    const auto total = static_cast<double>(device.total_bytes);
    const double used = total - static_cast<double>(device.free_bytes);
    const auto unit = static_cast<double>(kGiB);
    text += fmt::format("{}{} {}: {:.1f}/{:.1f} GB ({:.1f}%)", text.empty() ? "" : " ",
                        device.backend == "host" ? "CPU" : "GPU", device.index, used / unit, total / unit,
                        total > 0 ? used / total * 100 : 0.0);
  }
  return text;
}

}  // namespace ebb
