// The floor of memory over a soak, and whether it creeps. Called by soak.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ebb::cli {

/// What is held after every chat was reset.
struct FloorPoint {
  double seconds = 0;
  std::size_t turns = 0;         // so far
  std::size_t device_bytes = 0;  // ours by the devices' own count, all of them
  std::size_t host_bytes = 0;    // anonymous pages and swap of the process, by the operating system
};

[[nodiscard]] std::string floor_heading();
[[nodiscard]] std::string floor_line(const FloorPoint& point);

/// Least-squares slope over 0, 1, 2, ...; 0 for fewer than two values.
[[nodiscard]] double slope(std::span<const double> values);

struct SoakVerdict {
  std::size_t cycles = 0;                   // counted ones: the first few warm up
  double device_slope = 0, host_slope = 0;  // bytes a cycle
  bool device_creeps = false, host_creeps = false;
};

/// Creep is a rise of 2 MiB or more over the counted cycles, by the slope. Source   spec of metrics, leak slope.
[[nodiscard]] SoakVerdict judge(std::span<const FloorPoint> floors);
[[nodiscard]] std::string verdict_text(const SoakVerdict& verdict);

}  // namespace ebb::cli
