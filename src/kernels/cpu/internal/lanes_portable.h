// Sixteen 32-bit lanes in plain C++. The contract that lanes_avx2.h and lanes_avx512.h fulfil too; every function here
// says what theirs must give, bit for bit (but fma: here a product and a sum, each rounded).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace ebb::kernels {

struct PortableLanes {
  struct Ints {
    std::int32_t v[16];
  };
  struct Floats {
    float v[16];
  };
  static constexpr std::size_t kTilePanels = 1;
  static constexpr std::size_t kTileTokens = 4;
  static constexpr bool kByteDot = false;  // no dot_bytes

  template <class Make>
  static Ints ints(Make make) {
    Ints out;
    for (int i = 0; i < 16; ++i) out.v[i] = static_cast<std::int32_t>(make(i));
    return out;
  }
  template <class Make>
  static Floats floats(Make make) {
    Floats out;
    for (int i = 0; i < 16; ++i) out.v[i] = make(i);
    return out;
  }
  static std::uint32_t bits(std::int32_t value) { return static_cast<std::uint32_t>(value); }
  static std::int32_t low(std::int32_t value) { return static_cast<std::int16_t>(value & 0xffff); }
  static std::int32_t high(std::int32_t value) { return value >> 16; }
  static std::uint32_t join(std::int32_t low_half, std::int32_t high_half) {
    return (bits(low_half) & 0xffffu) | bits(high_half) << 16;
  }

  static Ints zero() { return Ints{}; }
  static Ints broadcast(std::int32_t value) {
    return ints([&](int) { return value; });
  }
  static Ints load(const std::int32_t* p) {
    Ints out;
    std::memcpy(out.v, p, sizeof(out.v));
    return out;
  }
  static void store(std::int32_t* p, const Ints& a) { std::memcpy(p, a.v, sizeof(a.v)); }

  /// out[d] lane r = the d-th 32-bit word at p + r * stride, unaligned.
  static void load_words(const std::byte* p, std::size_t stride, Ints out[4]) {
    for (std::size_t r = 0; r < 16; ++r) {
      std::int32_t words[4];
      std::memcpy(words, p + r * stride, sizeof(words));
      for (int d = 0; d < 4; ++d) out[d].v[r] = words[d];
    }
  }
  /// Lane r = the 32-bit word at p + r * stride.
  static Ints gather_words(const std::byte* p, std::size_t stride) {
    Ints out;
    for (std::size_t r = 0; r < 16; ++r) std::memcpy(&out.v[r], p + r * stride, sizeof(std::int32_t));
    return out;
  }

  static Ints bit_and(const Ints& a, const Ints& b) {
    return ints([&](int i) { return a.v[i] & b.v[i]; });
  }
  static Ints bit_xor(const Ints& a, const Ints& b) {
    return ints([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  /// (a & mask) | b
  static Ints masked_or(const Ints& a, const Ints& mask, const Ints& b) {
    return ints([&](int i) { return (a.v[i] & mask.v[i]) | b.v[i]; });
  }
  template <int kBits>
  static Ints shift_left(const Ints& a) {
    return ints([&](int i) { return bits(a.v[i]) << kBits; });
  }
  template <int kBits>
  static Ints shift_right(const Ints& a) {  // zeros come in
    return ints([&](int i) { return bits(a.v[i]) >> kBits; });
  }
  template <int kBits>
  static Ints shift_right_signed(const Ints& a) {
    return ints([&](int i) { return a.v[i] >> kBits; });
  }
  /// Byte i of each lane plus 16 where bit kFirst + i of `fifth` is set; the bytes are below 16.
  template <int kFirst>
  static Ints with_fifth_bits(const Ints& bytes, const Ints& fifth) {
    return ints([&](int i) {
      const std::uint32_t four = bits(fifth.v[i]) >> kFirst & 15u;
      return bits(bytes.v[i]) | (four * 0x00204081u & 0x01010101u) << 4;  // one bit to the foot of each byte
    });
  }
  static Ints sub16(const Ints& a, const Ints& b) {
    return ints([&](int i) { return join(low(a.v[i]) - low(b.v[i]), high(a.v[i]) - high(b.v[i])); });
  }
  static Ints mul16(const Ints& a, const Ints& b) {
    return ints([&](int i) { return join(low(a.v[i]) * low(b.v[i]), high(a.v[i]) * high(b.v[i])); });
  }
  static Ints add(const Ints& a, const Ints& b) {
    return ints([&](int i) { return a.v[i] + b.v[i]; });
  }
  static Ints max(const Ints& a, const Ints& b) {
    return ints([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  /// acc + the products of both int16 halves.
  static Ints dot(const Ints& acc, const Ints& a, const Ints& b) {
    return ints([&](int i) { return acc.v[i] + low(a.v[i]) * low(b.v[i]) + high(a.v[i]) * high(b.v[i]); });
  }

  static Floats zero_floats() { return Floats{}; }
  static Floats broadcast(float value) {
    return floats([&](int) { return value; });
  }
  static Floats load(const float* p) {
    Floats out;
    std::memcpy(out.v, p, sizeof(out.v));
    return out;
  }
  static void store(float* p, const Floats& a) { std::memcpy(p, a.v, sizeof(a.v)); }
  static Floats mul(const Floats& a, const Floats& b) {
    return floats([&](int i) { return a.v[i] * b.v[i]; });
  }
  /// a * b + c
  static Floats fma(const Floats& a, const Floats& b, const Floats& c) {
    return floats([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  static Floats to_floats(const Ints& a) {
    return floats([&](int i) { return static_cast<float>(a.v[i]); });
  }
  /// To nearest, ties to even; |a| < 2^31.
  static Ints round_to_ints(const Floats& a) {
    return ints([&](int i) { return static_cast<std::int32_t>(std::nearbyintf(a.v[i])); });
  }
  /// The low 16 bits of each lane, read as an IEEE half.
  static Floats half_to_floats(const Ints& a) {
    return floats([&](int i) { return f16_to_float(static_cast<std::uint16_t>(a.v[i] & 0xffff)); });
  }
  static Floats as_floats(const Ints& a) {
    return floats([&](int i) { return std::bit_cast<float>(a.v[i]); });
  }
  static Ints as_ints(const Floats& a) {
    return ints([&](int i) { return std::bit_cast<std::int32_t>(a.v[i]); });
  }
  static std::int32_t max_lane(const Ints& a) {
    std::int32_t out = a.v[0];
    for (int i = 1; i < 16; ++i) out = a.v[i] > out ? a.v[i] : out;
    return out;
  }
  static std::int32_t sum_lanes(const Ints& a) {
    std::int32_t out = 0;
    for (int i = 0; i < 16; ++i) out += a.v[i];
    return out;
  }
  /// 16 + 16 int32 that fit in int16, in pair order: 16 lanes of pairs.
  static Ints pack_pairs(const Ints& first, const Ints& second) {
    return ints([&](int i) {
      const std::int32_t* from = i < 8 ? first.v + i / 2 * 4 : second.v + (i - 8) / 2 * 4;
      return join(from[i % 2], from[i % 2 + 2]);
    });
  }
  static void prefetch(const std::byte*) {}
};

}  // namespace ebb::kernels
