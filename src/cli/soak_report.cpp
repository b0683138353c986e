#include "cli/soak_report.h"

#include <fmt/format.h>

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

// Welford's update: what is summed stays small beside the values, however many there are.
void Trend::add(double value) {
  const auto index = static_cast<double>(count_++);
  const double above_mean = value - mean_;
  mean_ += above_mean / (index + 1);
  products_ += above_mean * index / 2;  // index - mean of 0 ... index
}

double Trend::slope() const {
  if (count_ < 2) return 0;
  const auto count = static_cast<double>(count_);
  return products_ / (count * (count * count - 1) / 12);  // the sum of (index - mean index) squared
}

void FloorWatch::add(const FloorPoint& floor) {
  if (cycles_++ < kWarmUpCycles) return;
  device_.add(static_cast<double>(floor.device_bytes));
  host_.add(static_cast<double>(floor.host_bytes));
}

SoakVerdict FloorWatch::verdict() const {
  SoakVerdict verdict;
  verdict.cycles = device_.count();
  const auto cycles = static_cast<double>(verdict.cycles);
  verdict.device_slope = device_.slope();
  verdict.host_slope = host_.slope();
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
