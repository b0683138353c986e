#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

// Both ends of the context of every size (1.1, 2.4): the table is the float32 nearest to cos and sin of the float64
// angle, give or take the table's own 1e-9.
TEST(RopeTable, EqualsDoublePrecisionUpToTheLastPosition) {
  struct Case {
    std::size_t head_dim;
    double base;
    double factor;
  };
  for (const Case& c : {Case{256, 1e4, 1}, Case{256, 1e6, 1}, Case{256, 1e6, 8}, Case{128, 1e6, 8}, Case{16, 1e4, 1}}) {
    const std::size_t half = c.head_dim / 2;
    for (std::size_t first_pos : {0ul, 1000ul, 32700ul, 131012ul}) {
      constexpr std::size_t kRows = 60;
      std::vector<float> table(kRows * c.head_dim);
      rope_table(first_pos, kRows, c.head_dim, c.base, c.factor, table.data());
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t e = 0; e < half; ++e) {
          const double frequency =
              std::pow(c.base, -2.0 * static_cast<double>(e) / static_cast<double>(c.head_dim)) / c.factor;
          const double angle = static_cast<double>(first_pos + r) * frequency;
          const float* row = &table[r * c.head_dim];
          const double ulp = 0x1p-24;
          ASSERT_NEAR(static_cast<double>(row[e]), std::cos(angle), ulp * std::abs(std::cos(angle)) + 1e-9);
          ASSERT_NEAR(static_cast<double>(row[half + e]), std::sin(angle), ulp * std::abs(std::sin(angle)) + 1e-9);
        }
      }
    }
  }
}

TEST(RopeTable, StartsWithTheUnturnedPosition) {
  std::vector<float> table(256);
  rope_table(0, 1, 256, 1e6, 8, table.data());
  for (std::size_t e = 0; e < 128; ++e) {
    EXPECT_EQ(table[e], 1.0f);
    EXPECT_EQ(table[128 + e], 0.0f);
  }
}

TEST(NormRope, EqualsDoublePrecisionHeadByHead) {
  constexpr std::size_t kRows = 9;
  constexpr std::size_t kHeads = 3;
  constexpr float kEps = 1e-6f;
  ThreadPool threads(2);
  for (std::size_t head_dim : {8ul, 16ul, 48ul, 64ul, 128ul, 256ul}) {
    const std::size_t half = head_dim / 2;
    const std::size_t stride = kHeads * head_dim + 24;
    const std::vector<float> before = random_floats(kRows * stride, 1, 20.0f);
    const std::vector<float> w = random_floats(head_dim, 2);
    std::vector<float> table(kRows * head_dim);
    rope_table(511, kRows, head_dim, 1e4, 1, table.data());
    for_each_simd_level([&] {
      std::vector<float> x = before;
      norm_rope(threads, x.data(), stride, w.data(), kEps, table.data(), kRows, kHeads, head_dim);
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t h = 0; h < kHeads; ++h) {
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
            // Three roundings in a and b, one in each product, one in the sum: 5 halves of an ulp of |a| + |b|.
            const double tolerance = 6.0 * 0x1p-24 * (std::abs(a) + std::abs(b));
            ASSERT_NEAR(static_cast<double>(out[e]), a * cosine - b * sine, tolerance);
            ASSERT_NEAR(static_cast<double>(out[half + e]), b * cosine + a * sine, tolerance);
          }
        }
        for (std::size_t c = kHeads * head_dim; c < stride; ++c) ASSERT_EQ(x[r * stride + c], before[r * stride + c]);
      }
    });
  }
}

}  // namespace
}  // namespace ebb::kernels
