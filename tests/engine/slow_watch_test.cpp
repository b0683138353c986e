// B7: when a slow step means spilling, by given times.
#include "engine/internal/slow_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

namespace ebb::engine {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kHeld = 1000;

SlowWatch used_to(double seconds) {
  SlowWatch watch;
  for (int step = 0; step < 20; ++step) EXPECT_FALSE(watch.is_spilling(Seconds(seconds), kHeld));
  return watch;
}

TEST(SlowWatch, SaysOnceThatMoreMemoryMadeStepsSlow) {
  SlowWatch watch = used_to(0.01);
  int said = 0;
  for (int step = 0; step < 50; ++step) said += watch.is_spilling(Seconds(0.1), kHeld + 1) ? 1 : 0;
  EXPECT_EQ(said, 1);
  EXPECT_NEAR(watch.slowdown(), 10, 0.5);
}

TEST(SlowWatch, ABusyMomentIsNotSpilling) {
  SlowWatch watch = used_to(0.01);
  for (int step = 0; step < 100; ++step) {
    EXPECT_FALSE(watch.is_spilling(Seconds(step % 8 == 7 ? 0.01 : 0.1), kHeld + 1)) << "seven in a row";
  }
}

TEST(SlowWatch, SlowWithoutMoreMemoryIsNotSpilling) {
  SlowWatch watch = used_to(0.01);
  for (int step = 0; step < 100; ++step) EXPECT_FALSE(watch.is_spilling(Seconds(0.1), kHeld));
}

}  // namespace
}  // namespace ebb::engine
