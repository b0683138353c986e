// f32x16.h in plain C++, for the compiler's baseline. Multiply and add round separately (no FMA in the baseline).
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {

struct F32x16 {
  float v[16];
};

template <typename Function>
inline F32x16 each_lane(Function function) {
  F32x16 result;
  for (int i = 0; i < 16; ++i) result.v[i] = function(i);
  return result;
}

inline F32x16 set1(float x) {
  return each_lane([x](int) { return x; });
}
inline F32x16 zero() { return set1(0.0f); }
inline F32x16 load(const float* from) {
  return each_lane([&](int i) { return from[i]; });
}
inline void store(float* to, const F32x16& x) {
  for (int i = 0; i < 16; ++i) to[i] = x.v[i];
}
inline F32x16 operator+(const F32x16& a, const F32x16& b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32x16 operator-(const F32x16& a, const F32x16& b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32x16 operator*(const F32x16& a, const F32x16& b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32x16 operator/(const F32x16& a, const F32x16& b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
inline F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return each_lane([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline F32x16 max(const F32x16& a, const F32x16& b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32x16 min_or_nan(const F32x16& limit, const F32x16& x) {
  return each_lane([&](int i) { return limit.v[i] < x.v[i] ? limit.v[i] : x.v[i]; });
}
inline F32x16 max_or_nan(const F32x16& limit, const F32x16& x) {
  return each_lane([&](int i) { return limit.v[i] > x.v[i] ? limit.v[i] : x.v[i]; });
}
inline F32x16 zero_where_less(const F32x16& a, const F32x16& b, const F32x16& x) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? 0.0f : x.v[i]; });
}
inline F32x16 add_to_exponent(const F32x16& x, const F32x16& shifted) {
  return each_lane([&](int i) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) +
                                (std::bit_cast<std::uint32_t>(shifted.v[i]) << 23));
  });
}
inline F32x16 keep_lanes(const F32x16& x, int first, int last, const F32x16& other) {
  return each_lane([&](int i) { return i >= first && i < last ? x.v[i] : other.v[i]; });
}

inline float reduce_add(F32x16 x) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
  return x.v[0];
}
inline float reduce_max(F32x16 x) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
  return x.v[0];
}

inline F32x16 load_f16(const std::uint16_t* from) {
  return each_lane([&](int i) { return f16_to_float(from[i]); });
}
inline F32x16 load_bf16(const std::uint16_t* from) {
  return each_lane([&](int i) { return bf16_to_float(from[i]); });
}
inline void store_f16(std::uint16_t* to, const F32x16& x) {
  const F32x16 finite = max_or_nan(set1(-65504.0f), min_or_nan(set1(65504.0f), x));
  for (int i = 0; i < 16; ++i) to[i] = float_to_f16(finite.v[i]);
}
inline void store_bf16(std::uint16_t* to, const F32x16& x) {
  for (int i = 0; i < 16; ++i) to[i] = float_to_bf16(x.v[i]);
}

inline void transpose(F32x16 (&row)[16]) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < i; ++j) {
      const float kept = row[i].v[j];
      row[i].v[j] = row[j].v[i];
      row[j].v[i] = kept;
    }
  }
}

struct SquareSum {
  double lane[16] = {};

  void add(const F32x16& x) {
    for (int i = 0; i < 16; ++i) lane[i] += static_cast<double>(x.v[i]) * static_cast<double>(x.v[i]);
  }
  [[nodiscard]] double total() const {
    SquareSum tree = *this;
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) tree.lane[i] += tree.lane[i + half];
    return tree.lane[0];
  }
};

constexpr int kProductRows = 2;
constexpr int kProductVectors = 1;

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
