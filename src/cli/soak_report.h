// The floor of memory over a soak, and whether it creeps. Called by soak.cpp.
#pragma once

#include <cstddef>
#include <string>

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

/// Least-squares slope over 0, 1, 2, ... of values that are not kept, so that watching memory takes none.
class Trend {
 public:
  void add(double value);
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] double slope() const;  // 0 for fewer than two values

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double products_ = 0;  // sum of (index - mean index) * (value - mean value)
};

struct SoakVerdict {
  std::size_t cycles = 0;                   // counted ones: the first few warm up
  double device_slope = 0, host_slope = 0;  // bytes a cycle
  bool device_creeps = false, host_creeps = false;
};

/// Takes the floor after each cycle. Creep is a rise of 2 MiB or more over the counted cycles, by the slope.
/// Source   spec of metrics, leak slope.
class FloorWatch {
 public:
  void add(const FloorPoint& floor);
  [[nodiscard]] std::size_t cycles() const { return cycles_; }  // all, with those that warm up
  [[nodiscard]] SoakVerdict verdict() const;

 private:
  std::size_t cycles_ = 0;
  Trend device_, host_;
};

[[nodiscard]] std::string verdict_text(const SoakVerdict& verdict);

}  // namespace ebb::cli
