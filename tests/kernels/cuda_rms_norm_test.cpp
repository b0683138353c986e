// RMSNorm on a card against the CPU's. Skipped where this build has no GPU code or the machine no card.
#include "kernels/cuda/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/cuda_testing.h"
#include "kernels/ops_testing.h"
#include "kernels/rms_norm.h"
#include "kernels/thread_pool.h"

namespace ebb::kernels {
namespace {

constexpr float kEps = 1e-6f;

class CudaRmsNorm : public CudaCase, public testing::WithParamInterface<std::size_t> {
 protected:
  std::vector<float> norm(const std::vector<float>& x, const std::vector<float>& w, std::size_t skew = 0) {
    float* const y = upload(std::vector<float>(x.size(), kPoison), skew);
    EXPECT_TRUE(cuda::RmsNorm::find(*code).value().run(device::Stream::Compute, upload(x, skew), upload(w, skew), kEps,
                                                       x.size() / w.size(), w.size(), y));
    return download(y, x.size());
  }
};

// The CPU's own error is three roundings and a second-order rest (rms_norm_test.cpp): 4.
double tolerance(std::size_t cols, float value) {
  return (cuda::rms_norm_error(cols) + 4) * 0x1p-24 * std::abs(static_cast<double>(value));
}

TEST_P(CudaRmsNorm, EqualsTheCpuForAnyWidthAndAlignment) {
  const std::size_t cols = GetParam();
  constexpr std::size_t kRows = 37;
  const std::vector<float> x = random_floats(kRows * cols, 1, 300.0f);
  const std::vector<float> w = random_floats(cols, 2);
  std::vector<float> expected(x.size());
  ThreadPool threads(1);
  rms_norm(threads, x.data(), w.data(), kEps, kRows, cols, expected.data());
  for (const std::size_t skew : {0u, 1u}) {
    SCOPED_TRACE(skew);
    const std::vector<float> y = norm(x, w, skew);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], tolerance(cols, expected[i])) << i;
    EXPECT_TRUE(same_bits(norm(x, w, skew), y));
    float* const in_place = upload(x, skew);
    ASSERT_TRUE(cuda::RmsNorm::find(*code).value().run(device::Stream::Compute, in_place, upload(w, skew), kEps, kRows, cols,
                                                       in_place));
    EXPECT_TRUE(same_bits(download(in_place, x.size()), y));
  }
}

/// In double precision.
std::vector<double> reference(const std::vector<float>& x, const std::vector<float>& w, std::size_t rows) {
  const std::size_t cols = w.size();
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += static_cast<double>(x[r * cols + c]) * static_cast<double>(x[r * cols + c]);
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(cols) + static_cast<double>(kEps));
    for (std::size_t c = 0; c < cols; ++c)
      y[r * cols + c] = static_cast<double>(x[r * cols + c]) * inverse * static_cast<double>(w[c]);
  }
  return y;
}

// The added branch has rms_norm_error, the add one rounding more (or one less, where it is fused with a product); what comes
// next is held against what was stored.
TEST_P(CudaRmsNorm, ResidualFormAddsTheNormedBranchThenNorms) {
  const std::size_t cols = GetParam();
  constexpr std::size_t kRows = 5;
  const std::vector<float> x = random_floats(kRows * cols, 5, 1e4f);
  const std::vector<float> branch = random_floats(kRows * cols, 6, 1e-3f);
  const std::vector<float> w_post = random_floats(cols, 7, 50.0f);
  const std::vector<float> w_next = random_floats(cols, 8);
  const std::vector<double> normed = reference(branch, w_post, kRows);
  const double unit_roundings = cuda::rms_norm_error(cols) * 0x1p-24;
  for (const std::size_t skew : {0u, 1u}) {
    SCOPED_TRACE(skew);
    float* const at_x = upload(x, skew);
    float* const at_y = upload(std::vector<float>(x.size(), kPoison), skew);
    ASSERT_TRUE(cuda::RmsNorm::find(*code).value().run_residual(device::Stream::Compute, at_x, upload(branch, skew),
                                                                upload(w_post, skew), upload(w_next, skew), kEps, kRows, cols,
                                                                at_y));
    const std::vector<float> added = download(at_x, x.size());
    const std::vector<float> y = download(at_y, x.size());
    const std::vector<double> expected = reference(added, w_next, kRows);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double sum = static_cast<double>(x[i]) + normed[i];
      ASSERT_NEAR(static_cast<double>(added[i]), sum, 1.01 * (unit_roundings * std::abs(normed[i]) + 0x1p-24 * std::abs(sum)));
      ASSERT_NEAR(static_cast<double>(y[i]), expected[i], 1.01 * unit_roundings * std::abs(expected[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, CudaRmsNorm,
                         testing::Values(1, 7, 16, 17, 72, 256, 640, 1024, 1028, 1152, 2560, 3840, 5376, 8192, 8196, 21504));

TEST_F(CudaRmsNorm, RowsDependOnThemselvesAloneAndNaNStaysInItsRow) {
  constexpr std::size_t kRows = 50;
  constexpr std::size_t kCols = 3840;
  std::vector<float> x = random_floats(kRows * kCols, 3);
  const std::vector<float> w = random_floats(kCols, 4);
  const std::vector<float> y = norm(x, w);
  const std::vector<float> last_row(x.end() - kCols, x.end());
  EXPECT_TRUE(same_bits(norm(last_row, w), {y.end() - kCols, y.end()}));
  x[kCols + 5] = kPoison;
  const std::vector<float> broken = norm(x, w);
  EXPECT_TRUE(std::isnan(broken[kCols]) && std::isnan(broken[2 * kCols - 1]));
  EXPECT_TRUE(same_bits({broken.begin(), broken.begin() + kCols}, {y.begin(), y.begin() + kCols}));
  EXPECT_TRUE(same_bits({broken.begin() + 2 * kCols, broken.end()}, {y.begin() + 2 * kCols, y.end()}));
}

}  // namespace
}  // namespace ebb::kernels
