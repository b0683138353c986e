#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ebb {
namespace {

TEST(Half, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float half = f16_to_float(pattern), brain = bf16_to_float(pattern);
    EXPECT_TRUE(std::isnan(half) || float_to_f16(half) == pattern) << pattern;
    EXPECT_TRUE(std::isnan(brain) || float_to_bf16(brain) == pattern) << pattern;
  }
}

TEST(Half, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(f16_to_float(float_to_f16(1.0F + 0x1p-11F)), 1.0F) << "a tie goes to the even neighbour";
  EXPECT_EQ(f16_to_float(float_to_f16(1.0F + 3 * 0x1p-11F)), 1.0F + 0x1p-9F);
  EXPECT_EQ(f16_to_float(float_to_f16(0x1p-25F)), 0.0F);
  EXPECT_EQ(f16_to_float(float_to_f16(0x1.8p-25F)), 0x1p-24F);
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);
}

TEST(Half, OverflowIsInfiniteAndNaNStaysNaN) {
  EXPECT_EQ(f16_to_float(float_to_f16(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(f16_to_float(float_to_f16(65520.0F))));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(nan))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(nan))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001U))))) << "a NaN of low bits only";
}

}  // namespace
}  // namespace ebb
