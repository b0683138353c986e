// The table of angles and the fused q/k norm on a card against double precision; the cases are those of rope_test.cpp.
#include "kernels/cuda/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/cuda_testing.h"
#include "kernels/ops_testing.h"
#include "kernels/rope.h"

namespace ebb::kernels {
namespace {

constexpr float kEps = 1e-6f;

class CudaRope : public CudaCase {
 protected:
  std::vector<float> norm_rope(const std::vector<float>& x, std::size_t stride, const std::vector<float>& w,
                               const std::vector<float>& table, std::size_t heads, std::size_t skew = 0) {
    float* const at = upload(x, skew);
    EXPECT_TRUE(cuda::Rope::find(*code).value().norm_rope(device::Stream::Compute, at, stride, upload(w, skew), kEps,
                                                          upload(table, skew), x.size() / stride, heads, w.size()));
    return download(at, x.size());
  }
};

// Both ends of the context of every size, and heads of all widths a warp may hold.
TEST_F(CudaRope, TableEqualsDoublePrecisionUpToTheLastPosition) {
  struct Case {
    std::size_t head_dim;
    double base;
    double factor;
  };
  const cuda::Rope rope = cuda::Rope::find(*code).value();
  for (const Case& c : {Case{256, 1e4, 1}, Case{256, 1e6, 1}, Case{256, 1e6, 8}, Case{128, 1e6, 8}, Case{16, 1e4, 1}, Case{2, 1e4, 1},
                        Case{98, 1e4, 1}}) {
    const std::size_t half = c.head_dim / 2;
    for (const std::size_t first_pos : {0ul, 1000ul, 32700ul, 131012ul, (1ul << 20) - 61}) {
      constexpr std::size_t kRows = 61;
      float* const at = upload(std::vector<float>(kRows * c.head_dim + 1, kPoison));
      ASSERT_TRUE(rope.fill_table(device::Stream::Compute, first_pos, kRows, c.head_dim, c.base, c.factor, at));
      const std::vector<float> table = download(at, kRows * c.head_dim + 1);
      EXPECT_TRUE(std::isnan(table.back()));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t e = 0; e < half; ++e) {
          const double frequency = std::pow(c.base, -2.0 * static_cast<double>(e) / static_cast<double>(c.head_dim)) / c.factor;
          const double angle = static_cast<double>(first_pos + r) * frequency;
          const float* row = &table[r * c.head_dim];
          ASSERT_NEAR(static_cast<double>(row[e]), std::cos(angle), 0x1p-24 * std::abs(std::cos(angle)) + 1e-9);
          ASSERT_NEAR(static_cast<double>(row[half + e]), std::sin(angle), 0x1p-24 * std::abs(std::sin(angle)) + 1e-9);
        }
      }
    }
  }
}

TEST_F(CudaRope, NormRopeEqualsDoublePrecisionHeadByHead) {
  constexpr std::size_t kRows = 9;
  for (const std::size_t heads : {1ul, 3ul, 16ul}) {
    for (const std::size_t head_dim : {2ul, 8ul, 16ul, 48ul, 64ul, 98ul, 128ul, 254ul, 256ul}) {
      SCOPED_TRACE(head_dim);
      const std::size_t half = head_dim / 2;
      const std::size_t stride = heads * head_dim + 23;
      const std::vector<float> before = random_floats(kRows * stride, 1, 20.0f);
      const std::vector<float> w = random_floats(head_dim, 2);
      std::vector<float> table(kRows * head_dim);
      rope_table(511, kRows, head_dim, 1e4, 1, table.data());
      const std::vector<float> x = norm_rope(before, stride, w, table, heads);
      EXPECT_TRUE(same_bits(norm_rope(before, stride, w, table, heads, 1), x));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t h = 0; h < heads; ++h) {
          const float* in = &before[r * stride + h * head_dim];
          const float* out = &x[r * stride + h * head_dim];
          double sum = 0;
          for (std::size_t e = 0; e < head_dim; ++e) sum += static_cast<double>(in[e]) * static_cast<double>(in[e]);
          const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(head_dim) + static_cast<double>(kEps));
          for (std::size_t e = 0; e < half; ++e) {
            const double a = static_cast<double>(in[e]) * inverse * static_cast<double>(w[e]);
            const double b = static_cast<double>(in[half + e]) * inverse * static_cast<double>(w[half + e]);
            const double cosine = static_cast<double>(table[r * head_dim + e]);
            const double sine = static_cast<double>(table[r * head_dim + half + e]);
            const double tolerance = 1.01 * cuda::norm_rope_error(head_dim) * 0x1p-24 * (std::abs(a) + std::abs(b));
            ASSERT_NEAR(static_cast<double>(out[e]), a * cosine - b * sine, tolerance);
            ASSERT_NEAR(static_cast<double>(out[half + e]), b * cosine + a * sine, tolerance);
          }
        }
        for (std::size_t c = heads * head_dim; c < stride; ++c) ASSERT_EQ(x[r * stride + c], before[r * stride + c]);
      }
    }
  }
}

TEST_F(CudaRope, NaNStaysInItsHead) {
  constexpr std::size_t kHeadDim = 256;
  std::vector<float> x = random_floats(3 * kHeadDim, 3);
  std::vector<float> table(kHeadDim);
  rope_table(7, 1, kHeadDim, 1e6, 8, table.data());
  const std::vector<float> w = random_floats(kHeadDim, 4);
  const std::vector<float> y = norm_rope(x, x.size(), w, table, 3);
  x[kHeadDim + 9] = kPoison;
  const std::vector<float> broken = norm_rope(x, x.size(), w, table, 3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / kHeadDim == 1) {
      EXPECT_TRUE(std::isnan(broken[i]));
    } else {
      EXPECT_EQ(broken[i], y[i]);
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
