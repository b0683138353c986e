// What the tests of the float kernels share: numbers from a fixed seed, the levels of this machine, bits compared.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/internal/simd.h"

namespace ebb::kernels {

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float deviation = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Runs body once with each level this processor has, and puts the best one back.
template <typename Body>
void for_each_simd_level(Body body) {
  for (SimdLevel level : {SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512}) {
    if (level > best_simd_level()) continue;
    SCOPED_TRACE(simd_level_name(level));
    set_simd_level(level);
    body();
  }
  set_simd_level(best_simd_level());
}

}  // namespace ebb::kernels
