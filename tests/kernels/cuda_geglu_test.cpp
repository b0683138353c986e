// The gated activation on a card against double precision; the cases are those of geglu_test.cpp.
#include "kernels/cuda/geglu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/cuda_testing.h"
#include "kernels/ops_testing.h"

namespace ebb::kernels {
namespace {

double gelu_tanh(double z) { return 0.5 * z * (1.0 + std::tanh(0.7978845608028654 * (z + 0.044715 * z * z * z))); }

class CudaGeglu : public CudaCase {
 protected:
  std::vector<float> geglu(const std::vector<float>& gate, const std::vector<float>& up, std::size_t skew = 0) {
    float* const y = upload(std::vector<float>(gate.size(), kPoison), skew);
    EXPECT_TRUE(cuda::Geglu::find(*code).value().run(device::Stream::Compute, upload(gate, skew), upload(up, skew), 1,
                                                     gate.size(), y));
    return download(y, gate.size());
  }
};

TEST_F(CudaGeglu, StaysWithinAFewUlpOfGateTimesUp) {
  std::vector<float> gate;
  for (float z = -30.0f; z <= 30.0f; z += 0.00071f) gate.push_back(z);
  for (const std::size_t odd : {0u, 3u}) {
    gate.resize(gate.size() / 4 * 4 + odd, 0.3f);
    const std::vector<float> up = random_floats(gate.size(), 1, 5.0f);
    for (const std::size_t skew : {0u, 1u}) {
      SCOPED_TRACE(skew);
      const std::vector<float> y = geglu(gate, up, skew);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double z = static_cast<double>(gate[i]);
        const double u = static_cast<double>(up[i]);
        ASSERT_NEAR(static_cast<double>(y[i]), gelu_tanh(z) * u, 1.01 * cuda::kGegluError * 0x1p-24 * std::abs(z * u)) << gate[i];
      }
    }
  }
}

TEST_F(CudaGeglu, SaturatesForLargeGatesAndNaNPassesThrough) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = geglu({20, 1e3f, 1e10f, 1e25f, 3e38f, -20, -1e3f, -1e10f, -3e38f, -1e5f, kInfinity, 0},
                                     {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 1e5f, 1, 7});
  EXPECT_EQ(y, (std::vector<float>{10, 500, 5e9f, 5e24f, 1.5e38f, 0, 0, 0, 0, 0, kInfinity, 0}));
  for (const float value : geglu({kPoison, 1, -100}, {1, kPoison, kPoison})) EXPECT_TRUE(std::isnan(value));
}

TEST_F(CudaGeglu, WorksInPlaceAndTheSameForAnyAlignment) {
  const std::vector<float> gate = random_floats(50 * 2056, 2, 4.0f);
  const std::vector<float> up = random_floats(gate.size(), 3);
  const std::vector<float> y = geglu(gate, up);
  EXPECT_TRUE(same_bits(geglu(gate, up, 1), y));
  float* const in_place = upload(gate);
  ASSERT_TRUE(cuda::Geglu::find(*code).value().run(device::Stream::Compute, in_place, upload(up), 50, 2056, in_place));
  EXPECT_TRUE(same_bits(download(in_place, gate.size()), y));
}

}  // namespace
}  // namespace ebb::kernels
