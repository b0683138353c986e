#include "kernels/internal/simd.h"

#include <gtest/gtest.h>

#include "kernels/geglu.h"
#include "kernels/ops_testing.h"
#include "kernels/rms_norm.h"

namespace ebb::kernels {
namespace {

TEST(SimdLevel, IsTheBestUnlessTheEnvironmentSaysLess) {
  EXPECT_LE(simd_level(), best_simd_level());
  set_simd_level(SimdLevel::Portable);
  EXPECT_EQ(simd_level(), SimdLevel::Portable);
  set_simd_level(best_simd_level());
  EXPECT_STREQ(simd_level_name(SimdLevel::Avx512), "avx512");
}

TEST(SimdLevel, Avx2AndAvx512GiveTheSameBits) {
  if (best_simd_level() < SimdLevel::Avx512) GTEST_SKIP() << "this processor has no AVX-512";
  constexpr std::size_t kCount = 5000;
  const std::vector<float> x = random_floats(kCount, 1, 5.0f);
  const std::vector<float> w = random_floats(kCount, 2);
  ThreadPool threads(1);
  std::vector<float> narrow(kCount);
  std::vector<float> wide(kCount);
  set_simd_level(SimdLevel::Avx2);
  rms_norm(threads, x.data(), w.data(), 1e-6f, 1, kCount, narrow.data());
  geglu(threads, narrow.data(), x.data(), 1, kCount, narrow.data());
  set_simd_level(SimdLevel::Avx512);
  rms_norm(threads, x.data(), w.data(), 1e-6f, 1, kCount, wide.data());
  geglu(threads, wide.data(), x.data(), 1, kCount, wide.data());
  set_simd_level(best_simd_level());
  EXPECT_TRUE(same_bits(narrow, wide));
}

}  // namespace
}  // namespace ebb::kernels
