#include "cli/memory_table.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace ebb::cli {

namespace {

std::string row(std::string_view name, std::size_t bytes) {
  return fmt::format("  {:<28}{:>14}\n", name, format_bytes(bytes));
}

}  // namespace

std::string memory_table(const engine::MemoryStatus& status) {
  std::string table;
  for (const engine::DeviceStatus& device : status.devices) {
    table += fmt::format("device {}: {} ({})\n", device.index, device.name, device.backend);
    for (const auto& [kind, bytes] : device.kinds) {
      if (bytes > 0) table += row(kind, bytes);
    }
    table += row("ready in the pool", device.pool_bytes);
    table += row("by the device's own count", device.used_by_us_bytes);
    table += row("free", device.free_bytes);
    table += row("total", device.total_bytes);
  }
  if (!status.host.kinds.empty()) table += "files and host\n";
  for (const auto& [kind, bytes] : status.host.kinds) {
    if (bytes > 0) table += row(kind, bytes);
  }
  if (!status.conversations.empty()) table += "conversations\n";
  for (const engine::ConversationStatus& conversation : status.conversations) {
    table += row(fmt::format("{}: {} tokens", conversation.id, conversation.tokens), conversation.device_bytes);
  }
  return table;
}

}  // namespace ebb::cli
