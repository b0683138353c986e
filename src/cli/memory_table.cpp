#include "cli/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "cli/receipt_report.h"

namespace ebb::cli {

namespace {

constexpr std::size_t kBarCells = 64;

struct Look {
  std::string_view kind;
  char letter;         // so that the bar reads without colours
  const char* colour;  // of the terminal's own 16, which every theme keeps apart
};
constexpr std::array<Look, 15> kLooks{{{"weights", 'W', "\033[34m"},
                                       {"vision", 'V', "\033[94m"},
                                       {"kv_global", 'G', "\033[32m"},
                                       {"kv_local", 'L', "\033[92m"},
                                       {"prefix", 'P', "\033[36m"},
                                       {"scratch", 's', "\033[33m"},
                                       {"workspace", 'w', "\033[93m"},
                                       {"staging", 't', "\033[35m"},
                                       {"graphs", 'g', "\033[95m"},
                                       {"parked", 'K', "\033[96m"},
                                       {"cache", 'c', "\033[96m"},
                                       {"other", 'o', "\033[35m"},
                                       {"pool", '+', "\033[37m"},
                                       {"untracked", '?', "\033[31m"},
                                       {"others", 'x', "\033[90m"}}};

const Look& look_of(std::string_view kind) {
  const auto* found = std::ranges::find(kLooks, kind, &Look::kind);
  return found == kLooks.end() ? kLooks[11] : *found;  // a kind this table does not know is "other"
}

struct Share {
  const Look* look;
  std::string name;
  std::size_t bytes;
};

// What fills the device, in the order of the bar.
std::vector<Share> shares_of(const engine::DeviceStatus& device) {
  std::vector<Share> shares;
  const auto add = [&](std::string_view kind, std::string name, std::size_t bytes) {
    if (bytes > 0) shares.push_back({&look_of(kind), std::move(name), bytes});
  };
  for (const auto& [kind, bytes] : device.kinds) add(kind, kind, bytes);
  add("pool", "ready in the pool", device.pool_bytes);
  add("untracked", "not accounted for", device.untracked_bytes);
  add("others", "other programs and the driver", device.others_bytes + device.context_bytes);
  return shares;
}

// Cells by share of the total; what holds bytes shows at least one, and the bar never runs over.
std::string bar(const engine::DeviceStatus& device, const std::vector<Share>& shares, bool colours) {
  const auto cells_of = [&](std::size_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(device.total_bytes);
    return static_cast<std::size_t>(std::llround(share * static_cast<double>(kBarCells)));
  };
  std::string text = "  [";
  std::size_t drawn = 0;
  for (const Share& share : shares) {
    const std::size_t cells = std::min(std::max<std::size_t>(1, cells_of(share.bytes)), kBarCells - drawn);
    const std::string run(cells, share.look->letter);
    text += colours ? fmt::format("{}{}\033[0m", share.look->colour, run) : run;
    drawn += cells;
  }
  std::string rest(kBarCells - drawn, '.');
  if (device.limit_bytes > 0 && device.limit_bytes < device.total_bytes) {
    const std::size_t cell = std::min(cells_of(device.limit_bytes), kBarCells - 1);
    if (cell >= drawn) rest[cell - drawn] = '|';
  }
  return text + rest + "]\n";
}

std::string row(std::string_view mark, std::string_view name, std::size_t bytes) {
  return fmt::format("  {} {:<36}{:>12}\n", mark, name, format_bytes(bytes));
}

double total_waste(const engine::DeviceStatus& device) {
  if (device.held_bytes == 0 || device.live_bytes > device.held_bytes) return 0;
  return static_cast<double>(device.held_bytes - device.live_bytes) / static_cast<double>(device.held_bytes);
}

std::string device_text(const engine::DeviceStatus& device, bool colours) {
  engine::MemoryStatus alone;
  alone.devices = {device};
  std::string text = fmt::format("{}  {}\n", gpu_memory(alone), device.name);
  const std::vector<Share> shares = shares_of(device);
  if (device.total_bytes > 0) text += bar(device, shares, colours);
  for (const Share& share : shares) {
    const std::string mark = colours ? fmt::format("{}{}\033[0m", share.look->colour, share.look->letter)
                                     : std::string(1, share.look->letter);
    text += row(mark, share.name, share.bytes);
  }
  text += row(".", "free", device.free_bytes);
  if (device.limit_bytes > 0 && device.limit_bytes < device.total_bytes) text += row("|", "limit", device.limit_bytes);
  if (device.held_bytes == 0 && device.planned_bytes == 0) return text;
  text += fmt::format("    held {} (of it waiting for the device {}), planned {}\n", format_bytes(device.held_bytes),
                      format_bytes(device.retired_bytes), format_bytes(device.planned_bytes));
  text += fmt::format("    ours by the device's own count {}\n", format_bytes(device.used_by_us_bytes));
  text += fmt::format(
      "    fragmentation: internal {:.2f} %, pool {:.2f} %, external 0 % (any page fits anywhere), all waste {:.2f} "
      "%\n",
      device.internal_fragmentation * 100, device.pool_fragmentation * 100, total_waste(device) * 100);
  if (device.address_fallback) text += "    large address ranges were refused here: chats move as they grow\n";
  return text;
}

// What the process holds beside what the limit counts.
std::string_view program_name(std::string_view kind) {
  if (kind == "heap") return "heap in use";
  if (kind == "heap_free") return "heap kept by the C library";
  if (kind == "data") return "variables of program and libraries";
  return kind;
}

std::string host_text(const engine::HostStatus& host) {
  std::string text;
  for (const auto& [kind, bytes] : host.kinds) {
    if (bytes > 0) text += row(" ", kind == "mapped_file" ? "mapped_file (the system's to drop)" : kind, bytes);
  }
  if (host.limit_bytes) text += row("|", "limit", *host.limit_bytes);
  for (const auto& [kind, bytes] : host.program) {
    if (bytes > 0) text += row(" ", program_name(kind), bytes);
  }
  if (host.anon_bytes > 0) text += row(" ", "of the process, by the system", host.anon_bytes);
  if (host.touched_bytes > 0) text += row(" ", "and pages of ours, by the system", host.touched_bytes);
  return text.empty() ? text : "host\n" + text;
}

std::string conversations_text(const std::vector<engine::ConversationStatus>& conversations) {
  if (conversations.empty()) return "";
  std::string text =
      fmt::format("chats\n    {:<6}{:<8}{:>16}{:>13}{:>13}\n", "id", "state", "tokens", "device", "host");
  for (const engine::ConversationStatus& chat : conversations) {
    text += fmt::format("    {:<6}{:<8}{:>16}{:>13}{:>13}{}\n", chat.id, engine::state_name(chat.state),
                        fmt::format("{}/{}", chat.tokens, chat.context), format_bytes(chat.device_bytes),
                        format_bytes(chat.host_bytes), chat.title.empty() ? "" : "  " + chat.title);
  }
  return text;
}

}  // namespace

std::string memory_table(const engine::MemoryStatus& status, bool colours) {
  std::string table;
  for (const engine::DeviceStatus& device : status.devices) table += device_text(device, colours);
  table += host_text(status.host);
  table += conversations_text(status.conversations);
  if (status.last) table += "last: " + receipt_line(*status.last) + "\n";
  return table;
}

std::string memory_line(const engine::MemoryStatus& status) {
  std::size_t held = 0;
  for (const engine::DeviceStatus& device : status.devices) held += device.held_bytes;
  const std::size_t chats = status.conversations.size();
  return fmt::format("{}; held {}, {} chat{}", gpu_memory(status), format_bytes(held), chats, chats == 1 ? "" : "s");
}

}  // namespace ebb::cli
