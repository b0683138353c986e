#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace ebb::cli {

namespace {

constexpr std::size_t kBarCells = 40;

char letter_of(std::string_view kind) {
  if (kind == "weights") return 'W';
  if (kind == "vision") return 'V';
  if (kind == "kv_global") return 'G';
  if (kind == "kv_local") return 'L';
  if (kind == "scratch") return 's';
  return 'c';
}

// Against what may be used; a plan over the limit fills the bar.
std::string bar(const engine::PlanDevice& device) {
  const auto whole = static_cast<double>(std::max({device.limit_bytes, device.planned_bytes, std::size_t{1}}));
  std::string cells;
  for (const auto& [kind, bytes] : device.kinds) {
    const auto count = std::llround(static_cast<double>(bytes) / whole * static_cast<double>(kBarCells));
    cells.append(std::max<std::size_t>(1, static_cast<std::size_t>(count)), letter_of(kind));
  }
  cells.resize(kBarCells, '.');
  return cells;
}

std::string row(std::string_view name, std::size_t bytes) {
  return fmt::format("  {:<26}{:>12}\n", name, format_bytes(bytes));
}

std::string kind_rows(const engine::KindBytes& kinds) {
  std::string text;
  for (const auto& [kind, bytes] : kinds) text += row(fmt::format("{} {}", letter_of(kind), kind), bytes);
  return text;
}

std::string place_name(int device) { return device == engine::kOnHost ? "host" : fmt::format("device {}", device); }

/// "layer 7" to 7; nothing for units that are no layers.
std::string_view layer_number(const engine::PlanUnit& unit) {
  constexpr std::string_view kLayer = "layer ";
  const std::string_view name = unit.name;
  return name.starts_with(kLayer) ? name.substr(kLayer.size()) : std::string_view();
}

// Neighbouring layers of one place are one row.
std::string unit_rows(const std::vector<engine::PlanUnit>& units) {
  std::string text = fmt::format("  {:<20}{:<12}{:>12}{:>14}\n", "unit", "where", "weights", "KV");
  for (std::size_t first = 0; first < units.size();) {
    const engine::PlanUnit& unit = units[first];
    std::string name = unit.name;
    std::size_t weights = 0, kv = 0, end = first;
    do {
      weights += units[end].weight_bytes;
      kv += units[end].kv_bytes;
      ++end;
    } while (end < units.size() && !layer_number(unit).empty() && !layer_number(units[end]).empty() &&
             units[end].device == unit.device);
    if (end - first > 1) name = fmt::format("layers {}-{}", layer_number(unit), layer_number(units[end - 1]));
    text += fmt::format("  {:<20}{:<12}{:>12}{:>14}\n", name, place_name(unit.device), format_bytes(weights),
                        kv == 0 ? "" : format_bytes(kv));
    first = end;
  }
  return text;
}

}  // namespace

std::string plan_report(const engine::Plan& plan) {
  std::string text = fmt::format("{}\ncontext {}, {} {}, KV {}, steps of {} tokens: {}\n", plan.model, plan.context,
                                 plan.parallel, plan.parallel == 1 ? "chat" : "chats", plan.kv_type, plan.chunk_tokens,
                                 plan.fits ? "fits" : "does not fit");
  for (const engine::PlanDevice& device : plan.devices) {
    text += fmt::format("\ndevice {}: {}\n  [{}] {} planned of {}; {} free of {}\n", device.index, device.name, bar(device),
                        format_bytes(device.planned_bytes), format_bytes(device.limit_bytes), format_bytes(device.free_bytes),
                        format_bytes(device.total_bytes));
    text += kind_rows(device.kinds);
  }
  text += fmt::format("\nhost: {} planned\n", format_bytes(plan.host_planned_bytes));
  text += kind_rows(plan.host_kinds);
  text += row("  the file, mapped", plan.mapped_file_bytes);
  text += "\n";
  text += unit_rows(plan.units);
  for (const std::string& warning : plan.warnings) text += fmt::format("\n! {}\n", warning);
  if (!plan.remedies.empty()) text += plan.fits ? "\nto have all on devices:\n" : "\nwhat to change:\n";
  for (const std::string& remedy : plan.remedies) text += fmt::format("  {}\n", remedy);
  return text;
}

}  // namespace ebb::cli
