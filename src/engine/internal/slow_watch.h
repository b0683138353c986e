// Notices that decoding has become many times slower while the device holds more than it did: some drivers put device
// memory into host memory without an error (B7). Says so once.
// Called by Keeper after each step.
#pragma once

#include <chrono>
#include <cstddef>

namespace ebb::engine {

class SlowWatch {
 public:
  /// One decode step with `held_bytes` of ours on the devices. True the one time that the warning is due.
  [[nodiscard]] bool is_spilling(std::chrono::duration<double> took, std::size_t held_bytes);
  /// How many times slower, when is_spilling() said so.
  [[nodiscard]] double slowdown() const { return slowdown_; }

 private:
  double usual_s_ = 0;              // a running mean of steps that were not slow
  std::size_t usual_bytes_ = 0;     // held when it was last taken
  std::size_t usual_count_ = 0;
  std::size_t slow_count_ = 0;      // in a row
  double slowdown_ = 1;
  bool warned_ = false;
};

}  // namespace ebb::engine
