#include "cli/soak_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace ebb::cli {

namespace {

constexpr std::size_t kWarmUpCycles = 3;  // buffers of the standard library and of threads find their size
constexpr double kCreepBytes = 2.0 * static_cast<double>(kMiB);

std::string side(std::string_view name, double bytes_a_cycle, bool creeps) {
  return fmt::format("{} {:+.0f} bytes a cycle{}", name, bytes_a_cycle, creeps ? " (creeps)" : "");
}

}  // namespace

std::string floor_heading() { return fmt::format("{:>10}{:>10}{:>14}{:>14}\n", "time", "turns", "device", "host"); }

std::string floor_line(const FloorPoint& point) {
  return fmt::format("{:>8.1f} s{:>10}{:>14}{:>14}\n", point.seconds, point.turns, format_bytes(point.device_bytes),
                     format_bytes(point.host_bytes));
}

double slope(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  if (values.size() < 2) return 0;
  const double mean_x = (count - 1) / 2;
  double mean_y = 0;
  for (const double value : values) mean_y += value / count;
  double above = 0, below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - mean_x;
    above += x * (values[i] - mean_y);
    below += x * x;
  }
  return above / below;
}

SoakVerdict judge(std::span<const FloorPoint> floors) {
  SoakVerdict verdict;
  const std::span<const FloorPoint> counted = floors.subspan(std::min(kWarmUpCycles, floors.size()));
  verdict.cycles = counted.size();
  std::vector<double> device, host;
  for (const FloorPoint& floor : counted) {
    device.push_back(static_cast<double>(floor.device_bytes));
    host.push_back(static_cast<double>(floor.host_bytes));
  }
  const auto cycles = static_cast<double>(verdict.cycles);
  verdict.device_slope = slope(device);
  verdict.host_slope = slope(host);
  verdict.device_creeps = verdict.device_slope * cycles >= kCreepBytes;
  verdict.host_creeps = verdict.host_slope * cycles >= kCreepBytes;
  return verdict;
}

std::string verdict_text(const SoakVerdict& verdict) {
  if (verdict.cycles < 2) return "too few cycles to judge; give more --turns or --time\n";
  const bool creeps = verdict.device_creeps || verdict.host_creeps;
  return fmt::format("{} over {} cycles: {}, {}\n", creeps ? "memory creeps" : "the floor is flat", verdict.cycles,
                     side("device", verdict.device_slope, verdict.device_creeps),
                     side("host", verdict.host_slope, verdict.host_creeps));
}

}  // namespace ebb::cli
