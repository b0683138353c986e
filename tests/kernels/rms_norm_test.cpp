#include "kernels/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

constexpr float kEps = 1e-6f;

std::vector<double> reference(const std::vector<double>& x, const std::vector<float>& w, std::size_t rows) {
  const std::size_t cols = w.size();
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += x[r * cols + c] * x[r * cols + c];
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(cols) + static_cast<double>(kEps));
    for (std::size_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * inverse * static_cast<double>(w[c]);
  }
  return y;
}

// Three roundings to float32 (the inverse root and two products), each half an ulp of a number within a factor 2.
double tolerance(double value) { return 4.0 * 0x1p-24 * std::abs(value); }

class RmsNorm : public testing::TestWithParam<std::size_t> {};

TEST_P(RmsNorm, EqualsDoublePrecisionForAnyWidth) {
  const std::size_t cols = GetParam();
  constexpr std::size_t kRows = 37;
  const std::vector<float> x = random_floats(kRows * cols, 1, 300.0f);
  const std::vector<float> w = random_floats(cols, 2);
  const std::vector<double> expected = reference({x.begin(), x.end()}, w, kRows);
  ThreadPool threads(2);
  for_each_simd_level([&] {
    std::vector<float> y(x.size());
    rms_norm(threads, x.data(), w.data(), kEps, kRows, cols, y.data());
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(static_cast<double>(y[i]), expected[i], tolerance(expected[i]));
    std::vector<float> in_place = x;
    rms_norm(threads, in_place.data(), w.data(), kEps, kRows, cols, in_place.data());
    EXPECT_TRUE(same_bits(in_place, y));
  });
}

TEST_P(RmsNorm, ResidualFormAddsTheNormedBranchThenNorms) {
  const std::size_t cols = GetParam();
  constexpr std::size_t kRows = 5;
  const std::vector<float> x = random_floats(kRows * cols, 3, 1e4f);
  const std::vector<float> branch = random_floats(kRows * cols, 4, 1e-3f);
  const std::vector<float> w_post = random_floats(cols, 5, 50.0f);
  const std::vector<float> w_next = random_floats(cols, 6);
  std::vector<double> sum = reference({branch.begin(), branch.end()}, w_post, kRows);
  std::vector<double> sum_tolerance(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum_tolerance[i] = tolerance(sum[i]);
    sum[i] += static_cast<double>(x[i]);
    sum_tolerance[i] += 0x1p-24 * std::abs(sum[i]);
  }
  ThreadPool threads(2);
  for_each_simd_level([&] {
    std::vector<float> added = x;
    std::vector<float> y(x.size());
    residual_rms_norm(threads, added.data(), branch.data(), w_post.data(), w_next.data(), kEps, kRows, cols, y.data());
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(static_cast<double>(added[i]), sum[i], sum_tolerance[i] * 1.01);
    const std::vector<double> expected = reference({added.begin(), added.end()}, w_next, kRows);  // of what was stored
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(static_cast<double>(y[i]), expected[i], tolerance(expected[i]));
  });
}

INSTANTIATE_TEST_SUITE_P(Widths, RmsNorm, testing::Values(1, 7, 16, 17, 72, 256, 640, 1152, 3840));

TEST(RmsNormRows, DependOnThemselvesAlone) {
  constexpr std::size_t kRows = 300;
  constexpr std::size_t kCols = 640;
  const std::vector<float> x = random_floats(kRows * kCols, 7);
  const std::vector<float> w = random_floats(kCols, 8);
  std::vector<float> together(x.size());
  std::vector<float> alone(x.size());
  ThreadPool two(2);
  ThreadPool one(1);
  rms_norm(two, x.data(), w.data(), kEps, kRows, kCols, together.data());
  for (std::size_t r = 0; r < kRows; ++r)
    rms_norm(one, x.data() + r * kCols, w.data(), kEps, 1, kCols, alone.data() + r * kCols);
  EXPECT_TRUE(same_bits(together, alone));
}

// T6: beyond half precision's 65504 nothing overflows, not even where the square leaves float32.
TEST(RmsNormRange, HugeRowsStayFiniteAndNanPassesThrough) {
  ThreadPool threads(1);
  for_each_simd_level([&] {
    std::vector<float> x(64, 3e30f);
    const std::vector<float> w(64, 1.0f);
    rms_norm(threads, x.data(), w.data(), kEps, 1, 64, x.data());
    for (float value : x) EXPECT_NEAR(value, 1.0f, 1e-6f);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    rms_norm(threads, x.data(), w.data(), kEps, 1, 64, x.data());
    for (float value : x) EXPECT_TRUE(std::isnan(value));
  });
}

}  // namespace
}  // namespace ebb::kernels
