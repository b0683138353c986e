// A layer's queries, keys and values, and attention over them in double precision, which every implementation is held
// against.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kv_testing.h"
#include "kernels/ops_testing.h"

namespace ebb::kernels {

struct Layer {
  std::size_t q_heads = 4;
  std::size_t kv_heads = 1;
  std::size_t head_dim = 64;
  std::size_t window = 0;
  KvTypes types = {};
  float scale = 0.125f;
  [[nodiscard]] std::size_t q_width() const { return q_heads * head_dim; }
  [[nodiscard]] std::size_t kv_width() const { return kv_heads * head_dim; }
};

/// Queries, keys and values of `tokens` positions.
struct Sequence {
  Sequence(const Layer& layer, std::size_t tokens, unsigned seed = 1)
      : q(random_floats(tokens * layer.q_width(), seed, 2.0f)),
        k(random_floats(tokens * layer.kv_width(), seed + 1)),
        v(random_floats(tokens * layer.kv_width(), seed + 2)) {}
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

inline std::vector<double> stored_doubles(const std::vector<float>& values, KvType type) {
  const std::vector<float> stored = as_stored(values, type);
  return {stored.begin(), stored.end()};
}

/// Each row alone, all its keys at once, in double precision (S6), held against `out`.
inline void expect_near_reference(const Layer& layer, const Sequence& sequence, const std::vector<float>& out) {
  const std::size_t tokens = sequence.k.size() / layer.kv_width();
  const std::size_t group = layer.q_heads / layer.kv_heads;
  const std::vector<double> k = stored_doubles(sequence.k, layer.types.k);
  const std::vector<double> v = stored_doubles(sequence.v, layer.types.v);
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::size_t oldest = layer.window == 0 || i < layer.window ? 0 : i + 1 - layer.window;
    for (std::size_t h = 0; h < layer.q_heads; ++h) {
      const auto kv_at = [&](std::size_t j) { return j * layer.kv_width() + h / group * layer.head_dim; };
      const float* q = &sequence.q[i * layer.q_width() + h * layer.head_dim];
      std::vector<double> weight;
      double highest = -std::numeric_limits<double>::infinity();
      double largest_dot = 0;
      for (std::size_t j = oldest; j <= i; ++j) {
        double score = 0;
        double magnitude = 0;
        for (std::size_t e = 0; e < layer.head_dim; ++e) {
          const double product = static_cast<double>(q[e]) * k[kv_at(j) + e];
          score += product;
          magnitude += std::abs(product);
        }
        weight.push_back(score * static_cast<double>(layer.scale));
        highest = std::max(highest, weight.back());
        largest_dot = std::max(largest_dot, magnitude * static_cast<double>(layer.scale));
      }
      double sum = 0;
      for (double& w : weight) sum += w = std::exp(w - highest);
      double largest_value = 0;
      std::vector<double> expected(layer.head_dim, 0.0);
      for (std::size_t j = oldest; j <= i; ++j) {
        for (std::size_t e = 0; e < layer.head_dim; ++e) {
          const double value = v[kv_at(j) + e];
          largest_value = std::max(largest_value, std::abs(value));
          expected[e] += weight[j - oldest] / sum * value;
        }
      }
      // A score is a chain of head_dim roundings of at most largest_dot, and the query was rounded once: that is the
      // relative error of its weight; numerator and denominator have it. A value is summed in chains of 64, with three
      // roundings a tile and a merge.
      const double unit = 0x1p-24;
      const double score_error = (static_cast<double>(layer.head_dim) + 4) * unit * largest_dot;
      const double chain = 64.0 + 4.0 * static_cast<double>(weight.size() / 64 + 2);
      const double tolerance = largest_value * 2 * (score_error + chain * unit);
      for (std::size_t e = 0; e < layer.head_dim; ++e)
        ASSERT_NEAR(static_cast<double>(out[i * layer.q_width() + h * layer.head_dim + e]), expected[e], tolerance)
            << "position " << i << " head " << h << " column " << e;
    }
  }
}

}  // namespace ebb::kernels
