#include "kernels/geglu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

double gelu_tanh(double z) { return 0.5 * z * (1.0 + std::tanh(0.7978845608028654 * (z + 0.044715 * z * z * z))); }

float geglu_of(float gate, float up) {
  ThreadPool threads(1);
  float y = 0;
  geglu(threads, &gate, &up, 1, 1, &y);
  return y;
}

TEST(Geglu, StaysWithinAFewUlpOfGateTimesUp) {
  std::vector<float> gate;
  for (float z = -30.0f; z <= 30.0f; z += 0.00071f) gate.push_back(z);
  const std::vector<float> up = random_floats(gate.size(), 1, 5.0f);
  ThreadPool threads(2);
  for_each_simd_level([&] {
    std::vector<float> y(gate.size());
    geglu(threads, gate.data(), up.data(), 1, gate.size(), y.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double z = static_cast<double>(gate[i]);
      const double u = static_cast<double>(up[i]);
      // The exponent's argument t = O(z + z^3) carries about 4 roundings, so e^t is off by 4 |t| 2^-24, and the result
      // by s (1 - s) of that, at most 0.28 / |t| |t|: 1.2 units; the power, the sum, the quotient and the product: 4
      // more.
      ASSERT_NEAR(static_cast<double>(y[i]), gelu_tanh(z) * u, 6.0 * 0x1p-24 * std::abs(z * u)) << gate[i];
    }
  });
}

TEST(Geglu, HasTheKnownValues) {
  for_each_simd_level([] {
    EXPECT_NEAR(geglu_of(-3.0f, 1.0f), -0.0036374f, 1e-6f);
    EXPECT_NEAR(geglu_of(-1.0f, 1.0f), -0.1588080f, 1e-6f);
    EXPECT_NEAR(geglu_of(0.5f, 1.0f), 0.3457140f, 1e-6f);
    EXPECT_NEAR(geglu_of(3.0f, 2.0f), 2.0f * 2.9963626f, 1e-6f);
    EXPECT_EQ(geglu_of(0.0f, 7.0f), 0.0f);
  });
}

TEST(Geglu, SaturatesForLargeGates) {
  for_each_simd_level([] {
    for (float z : {20.0f, 1e3f, 1e10f, 1e25f, 3e38f}) {
      EXPECT_EQ(geglu_of(z, 0.5f), z * 0.5f);
      EXPECT_EQ(geglu_of(-z, 0.5f), 0.0f) << z;
    }
    EXPECT_EQ(geglu_of(-1e5f, 1e5f), 0.0f);
    EXPECT_EQ(geglu_of(std::numeric_limits<float>::infinity(), 1.0f), std::numeric_limits<float>::infinity());
  });
}

// T6: a NaN must reach the logits, where it fails the request.
TEST(Geglu, NanPassesThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_simd_level([nan] {
    EXPECT_TRUE(std::isnan(geglu_of(nan, 1.0f)));
    EXPECT_TRUE(std::isnan(geglu_of(1.0f, nan)));
    EXPECT_TRUE(std::isnan(geglu_of(-100.0f, nan)));
  });
}

TEST(Geglu, WorksInPlaceAndTheSameForAnySplit) {
  constexpr std::size_t kRows = 50;
  constexpr std::size_t kCols = 2056;
  std::vector<float> gate = random_floats(kRows * kCols, 2, 4.0f);
  const std::vector<float> up = random_floats(kRows * kCols, 3);
  std::vector<float> alone(gate.size());
  ThreadPool two(2);
  ThreadPool one(1);
  for (std::size_t r = 0; r < kRows; ++r)
    geglu(one, gate.data() + r * kCols, up.data() + r * kCols, 1, kCols, alone.data() + r * kCols);
  geglu(two, gate.data(), up.data(), kRows, kCols, gate.data());
  EXPECT_TRUE(same_bits(gate, alone));
}

}  // namespace
}  // namespace ebb::kernels
