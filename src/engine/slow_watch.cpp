#include "engine/internal/slow_watch.h"

#include <algorithm>

namespace ebb::engine {
namespace {

constexpr std::size_t kUsualSteps = 8;  // before a step can be called slow
constexpr std::size_t kSlowSteps = 8;   // in a row: a busy moment of the machine is shorter
constexpr double kSlowFactor = 4;       // host memory is ten times slower than a card's, and only part of it is there
constexpr double kWeight = 0.1;         // of a new step in the running mean

}  // namespace

bool SlowWatch::is_spilling(std::chrono::duration<double> took, std::size_t held_bytes) {
  const double seconds = took.count();
  if (usual_count_ < kUsualSteps || seconds < kSlowFactor * usual_s_ || held_bytes <= usual_bytes_) {
    usual_s_ = usual_count_ == 0 ? seconds : usual_s_ + kWeight * (seconds - usual_s_);
    usual_bytes_ = usual_count_ < kUsualSteps ? held_bytes : std::min(usual_bytes_, held_bytes);
    ++usual_count_;
    slow_count_ = 0;
    return false;
  }
  slowdown_ = seconds / usual_s_;
  if (++slow_count_ < kSlowSteps || warned_) return false;
  warned_ = true;
  return true;
}

}  // namespace ebb::engine
