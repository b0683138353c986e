// f32x16.h in the compilers' own vectors of four, which every processor's baseline has in some form. Multiply and add
// round separately, for the baseline has no fused form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {

using Four = float __attribute__((vector_size(16)));
using FourBits = std::uint32_t __attribute__((vector_size(16)));
using FourSigned = std::int32_t __attribute__((vector_size(16)));

struct F32x16 {
  Four v[4];
};

/// The four quarters, each made by function(quarter).
template <typename Function>
inline F32x16 each_four(Function function) {
  return {{function(0), function(1), function(2), function(3)}};
}

inline F32x16 set1(float x) {
  const Four four = {x, x, x, x};
  return {{four, four, four, four}};
}
inline F32x16 zero() { return set1(0.0f); }
inline F32x16 load(const float* from) {
  return each_four([from](int i) {
    Four four;
    __builtin_memcpy(&four, from + 4 * i, sizeof four);
    return four;
  });
}
inline void store(float* to, const F32x16& x) { __builtin_memcpy(to, x.v, sizeof x.v); }
inline F32x16 operator+(const F32x16& a, const F32x16& b) {
  return each_four([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32x16 operator-(const F32x16& a, const F32x16& b) {
  return each_four([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32x16 operator*(const F32x16& a, const F32x16& b) {
  return each_four([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32x16 operator/(const F32x16& a, const F32x16& b) {
  return each_four([&](int i) { return a.v[i] / b.v[i]; });
}
inline F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return each_four([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline F32x16 max(const F32x16& a, const F32x16& b) {
  return each_four([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32x16 min_or_nan(const F32x16& limit, const F32x16& x) {
  return each_four([&](int i) { return limit.v[i] < x.v[i] ? limit.v[i] : x.v[i]; });
}
inline F32x16 max_or_nan(const F32x16& limit, const F32x16& x) {
  return each_four([&](int i) { return limit.v[i] > x.v[i] ? limit.v[i] : x.v[i]; });
}
inline F32x16 zero_where_less(const F32x16& a, const F32x16& b, const F32x16& x) {
  return each_four([&](int i) { return a.v[i] < b.v[i] ? Four{} : x.v[i]; });
}
inline F32x16 add_to_exponent(const F32x16& x, const F32x16& shifted) {
  return each_four([&](int i) {
    const FourBits n = __builtin_bit_cast(FourBits, shifted.v[i]) << 23;
    return __builtin_bit_cast(Four, __builtin_bit_cast(FourBits, x.v[i]) + n);
  });
}
inline F32x16 keep_lanes(const F32x16& x, int first, int last, const F32x16& other) {
  return each_four([&](int i) {
    const FourSigned lane = FourSigned{0, 1, 2, 3} + 4 * i;
    return ((lane >= first) & (lane < last)) ? x.v[i] : other.v[i];
  });
}

inline float reduce_add(const F32x16& x) {
  const Four four = (x.v[0] + x.v[2]) + (x.v[1] + x.v[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float reduce_max(const F32x16& x) {
  float highest = x.v[0][0];
  for (const Four& four : x.v)
    for (int i = 0; i < 4; ++i) highest = four[i] > highest ? four[i] : highest;
  return highest;
}

/// Lane by lane, for conversions: the baseline has no instruction for them.
template <typename Function>
inline F32x16 each_lane(Function function) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = function(i);
  return load(lanes);
}
inline F32x16 load_f16(const std::uint16_t* from) {
  return each_lane([from](int i) { return f16_to_float(from[i]); });
}
inline F32x16 load_bf16(const std::uint16_t* from) {
  return each_lane([from](int i) { return bf16_to_float(from[i]); });
}
inline void store_f16(std::uint16_t* to, const F32x16& x) {
  float finite[16];
  store(finite, max_or_nan(set1(-65504.0f), min_or_nan(set1(65504.0f), x)));
  for (int i = 0; i < 16; ++i) to[i] = float_to_f16(finite[i]);
}
inline void store_bf16(std::uint16_t* to, const F32x16& x) {
  float lanes[16];
  store(lanes, x);
  for (int i = 0; i < 16; ++i) to[i] = float_to_bf16(lanes[i]);
}

inline F32x16 broadcast_f16(const std::byte* from) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return set1(f16_to_float(bits));
}
inline F32x16 load_i8(const std::byte* from) {
  return each_lane([from](int i) { return static_cast<float>(static_cast<std::int8_t>(from[i])); });
}
template <int kShift>
inline F32x16 load_nibbles(const std::byte* from) {
  return each_lane([from](int i) { return static_cast<float>((static_cast<unsigned>(from[i]) >> kShift) & 15u); });
}
inline void store_i8(std::byte* to, const F32x16& x) {
  const F32x16 to_integer = set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to nearest, ties to even
  float lanes[16];
  store(lanes, (x + to_integer) - to_integer);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(static_cast<std::int8_t>(lanes[i]));
}
inline void store_nibbles(std::byte* to, const F32x16& low, const F32x16& high) {
  float lanes[2][16];
  store(lanes[0], min_or_nan(set1(15.0f), low));
  store(lanes[1], min_or_nan(set1(15.0f), high));
  for (int i = 0; i < 16; ++i)
    to[i] = static_cast<std::byte>(static_cast<unsigned>(lanes[0][i]) | static_cast<unsigned>(lanes[1][i]) << 4);
}

struct Words16 {
  FourBits v[4];
};
inline void load_words(const std::byte* const* rows, std::size_t offset, Words16 (&words)[4]) {
  for (int i = 0; i < 16; ++i) {
    std::uint32_t four[4];
    __builtin_memcpy(four, rows[i] + offset, sizeof four);
    for (int w = 0; w < 4; ++w) words[w].v[i / 4][i % 4] = four[w];
  }
}
template <int kByte>
inline F32x16 signed_byte(const Words16& words) {
  return each_four([&](int i) {
    return __builtin_convertvector(__builtin_bit_cast(FourSigned, words.v[i] << (24 - 8 * kByte)) >> 24, Four);
  });
}
template <int kShift>
inline F32x16 nibble(const Words16& words) {
  return each_four([&](int i) {
    return __builtin_convertvector(__builtin_bit_cast(FourSigned, (words.v[i] >> kShift) & 15), Four);
  });
}
inline F32x16 gather_f16(const std::byte* const* rows, std::size_t offset) {
  return each_lane([&](int i) {
    std::uint16_t bits;
    __builtin_memcpy(&bits, rows[i] + offset, sizeof bits);
    return f16_to_float(bits);
  });
}

inline void transpose(F32x16 (&row)[16]) {
  float lanes[16][16];
  for (int i = 0; i < 16; ++i) store(lanes[i], row[i]);
  for (int i = 0; i < 16; ++i) row[i] = each_lane([&](int j) { return lanes[j][i]; });
}

struct SquareSum {
  double lane[16] = {};

  void add(const F32x16& x) {
    float lanes[16];
    store(lanes, x);
    for (int i = 0; i < 16; ++i) lane[i] += static_cast<double>(lanes[i]) * static_cast<double>(lanes[i]);
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
