#include "cli/receipt_report.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace ebb::cli {

namespace {

std::string title(const engine::Receipt& receipt) {
  if (receipt.action == engine::Action::Reclaim) {
    return fmt::format("reclaim level {} ({})", receipt.level, engine::reason_name(receipt.reason));
  }
  const std::string of = receipt.conversation != 0 ? fmt::format(" of chat {}", receipt.conversation) : "";
  return fmt::format("{}{}", engine::action_name(receipt.action), of);
}

std::string kinds_text(const engine::KindBytes& kinds) {
  std::string text;
  for (const auto& [kind, bytes] : kinds) {
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind, format_bytes(bytes));
  }
  return text;
}

}  // namespace

std::string receipt_line(const engine::Receipt& receipt) {
  const bool gives = receipt.action != engine::Action::Load;
  const std::string bytes = gives ? format_bytes(receipt.freed_bytes) + " given back in " : "";
  const std::string host =
      receipt.host_freed_bytes > 0 ? fmt::format(", {} on the host", format_bytes(receipt.host_freed_bytes)) : "";
  return fmt::format("{}: {}{:.2f} ms{}, {}", title(receipt), bytes, static_cast<double>(receipt.us) / 1000.0, host,
                     receipt.confirmed ? "confirmed by the device" : "not yet confirmed by the device");
}

std::string receipt_text(const engine::Receipt& receipt) {
  std::string text = receipt_line(receipt) + "\n";
  for (const engine::Receipt::Device& device : receipt.devices) {
    text += fmt::format("  device {}: free {} before, {} after{}{}\n", device.index,
                        format_bytes(device.free_before_bytes), format_bytes(device.free_after_bytes),
                        device.freed_bytes > 0 ? "; went: " : "", kinds_text(device.kinds));
  }
  for (const engine::Receipt::Kept& kept : receipt.kept) {
    text += fmt::format("  kept {} {}: {}\n", kept.kind, format_bytes(kept.bytes), kept.why);
  }
  return text;
}

}  // namespace ebb::cli
