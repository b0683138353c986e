// What becomes of unpacked weights (unpack.h): kept as a panel for many tokens, or multiplied at once for one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/tile.h"

namespace ebb::kernels {
namespace {

/// Bytes become int16 pairs in pair order, zero point and int scale folded in.
template <class Lanes>
struct PanelSink {
  using Ints = typename Lanes::Ints;
  std::int32_t* pairs_to;
  float* scales_to;
  float* offsets_to;

  template <int kZero>
  EBB_INLINE static Ints spread(const Ints& bytes) {
    const Ints pair = Lanes::bit_and(bytes, Lanes::broadcast(0x00ff00ff));
    return kZero == 0 ? pair : Lanes::sub16(pair, Lanes::broadcast(kZero * 0x00010001));
  }
  /// An int scale in both int16 halves.
  EBB_INLINE static Ints twice(const Ints& scale) {
    return Lanes::masked_or(scale, Lanes::broadcast(0xffff), Lanes::template shift_left<16>(scale));
  }
  template <int kZero>
  EBB_INLINE void quads(std::size_t q, const Ints& bytes) {
    Lanes::store(pairs_to + q * 32, spread<kZero>(bytes));
    Lanes::store(pairs_to + q * 32 + 16, spread<kZero>(Lanes::template shift_right<8>(bytes)));
  }
  template <int kZero>
  EBB_INLINE void scaled_quads(std::size_t q, const Ints& bytes, const Ints& scale) {
    const Ints both = twice(scale);
    Lanes::store(pairs_to + q * 32, Lanes::mul16(spread<kZero>(bytes), both));
    Lanes::store(pairs_to + q * 32 + 16, Lanes::mul16(spread<kZero>(Lanes::template shift_right<8>(bytes)), both));
  }
  EBB_INLINE void offset(std::size_t o, const typename Lanes::Floats& value) {
    Lanes::store(offsets_to + o * 16, value);
  }
  template <int kZero>
  EBB_INLINE void end_block(const typename Lanes::Floats& scale) {
    Lanes::store(scales_to, scale);
    pairs_to += 16 * 16;
    scales_to += 16;
  }
  template <int kZero>
  EBB_INLINE void end_scaled_block(const typename Lanes::Floats& scale) {
    end_block<0>(scale);
  }
};

/// One token's products with sixteen rows: the same integers and the same order of floats as integer_tile, from bytes.
/// An activation is 256 h + l, digits of 8 bits with a sign each, and so is its product. Weights never touch memory;
/// the ones a few panels further on are asked for meanwhile, because the processor's own prefetch stops at each page's
/// end.
template <class Lanes>
struct DotSink {
  using Ints = typename Lanes::Ints;
  const std::byte* digits;  // of the row's next block: low digits [32], high digits [32]
  const std::byte* sums;    // int32 sums of its integers, one for each 16
  const std::byte* scales;
  float* offsets_to;
  const std::byte* ahead;
  std::size_t ahead_bytes;  // of 16 rows' packed block of 32
  typename Lanes::Floats sum = Lanes::zero_floats();
  Ints low[2] = {Lanes::zero(), Lanes::zero()};
  Ints high[2] = {Lanes::zero(), Lanes::zero()};
  Ints scaled = Lanes::zero();

  template <int kZero>
  EBB_INLINE void quads(std::size_t q, const Ints& bytes) {
    low[q % 2] = Lanes::dot_bytes(low[q % 2], bytes, Lanes::broadcast(read_at<std::int32_t>(digits + q * 4)));
    high[q % 2] = Lanes::dot_bytes(high[q % 2], bytes, Lanes::broadcast(read_at<std::int32_t>(digits + 32 + q * 4)));
  }
  template <int kZero>
  EBB_INLINE void scaled_quads(std::size_t q, const Ints& bytes, const Ints& scale) {
    quads<kZero>(q, bytes);
    if (q == 3) scaled = Lanes::mul(take(kZero * read_at<std::int32_t>(sums)), scale);
    if (q == 7) scaled = Lanes::add(scaled, Lanes::mul(take(kZero * read_at<std::int32_t>(sums + 4)), scale));
  }
  EBB_INLINE void offset(std::size_t o, const typename Lanes::Floats& value) {
    Lanes::store(offsets_to + o * 16, value);
  }
  template <int kZero>
  EBB_INLINE void end_block(const typename Lanes::Floats& scale) {
    finish(take(kZero * (read_at<std::int32_t>(sums) + read_at<std::int32_t>(sums + 4))), scale);
  }
  template <int kZero>
  EBB_INLINE void end_scaled_block(const typename Lanes::Floats& scale) {
    finish(scaled, scale);
  }

 private:
  EBB_INLINE Ints take(std::int32_t minus) {
    const Ints total =
        Lanes::add(Lanes::template shift_left<8>(Lanes::add(high[0], high[1])), Lanes::add(low[0], low[1]));
    low[0] = low[1] = high[0] = high[1] = Lanes::zero();
    return Lanes::sub(total, Lanes::broadcast(minus));
  }
  EBB_INLINE void finish(const Ints& total, const typename Lanes::Floats& scale) {
    sum = Lanes::fma(Lanes::to_floats(total), Lanes::mul(scale, Lanes::broadcast(read_at<float>(scales))), sum);
    digits += 64;
    sums += 8;
    scales += 4;
    for (std::size_t at = 0; at < ahead_bytes; at += 64) Lanes::prefetch(ahead + at);
    ahead += ahead_bytes;
  }
};

/// DotSink for lanes without byte products: the int16 pairs of integer_tile, without the panel.
template <class Lanes>
struct PairDotSink {
  using Ints = typename Lanes::Ints;
  const std::byte* pairs;  // of the row's next block
  const std::byte* scales;
  float* offsets_to;
  const std::byte* ahead;
  std::size_t ahead_bytes;
  typename Lanes::Floats sum = Lanes::zero_floats();
  Ints acc[2] = {Lanes::zero(), Lanes::zero()};

  template <int kZero>
  EBB_INLINE void quads(std::size_t q, const Ints& bytes) {
    add(q, PanelSink<Lanes>::template spread<kZero>(bytes),
        PanelSink<Lanes>::template spread<kZero>(Lanes::template shift_right<8>(bytes)));
  }
  template <int kZero>
  EBB_INLINE void scaled_quads(std::size_t q, const Ints& bytes, const Ints& scale) {
    const Ints both = PanelSink<Lanes>::twice(scale);
    add(q, Lanes::mul16(PanelSink<Lanes>::template spread<kZero>(bytes), both),
        Lanes::mul16(PanelSink<Lanes>::template spread<kZero>(Lanes::template shift_right<8>(bytes)), both));
  }
  EBB_INLINE void offset(std::size_t o, const typename Lanes::Floats& value) {
    Lanes::store(offsets_to + o * 16, value);
  }
  template <int kZero>
  EBB_INLINE void end_block(const typename Lanes::Floats& scale) {
    const Ints total = Lanes::add(acc[0], acc[1]);
    sum = Lanes::fma(Lanes::to_floats(total), Lanes::mul(scale, Lanes::broadcast(read_at<float>(scales))), sum);
    acc[0] = acc[1] = Lanes::zero();
    pairs += 64;
    scales += 4;
    for (std::size_t at = 0; at < ahead_bytes; at += 64) Lanes::prefetch(ahead + at);
    ahead += ahead_bytes;
  }
  template <int kZero>
  EBB_INLINE void end_scaled_block(const typename Lanes::Floats& scale) {
    end_block<0>(scale);
  }

 private:
  EBB_INLINE void add(std::size_t q, const Ints& even, const Ints& odd) {
    acc[0] = Lanes::dot(acc[0], even, Lanes::broadcast(read_at<std::int32_t>(pairs + q * 8)));
    acc[1] = Lanes::dot(acc[1], odd, Lanes::broadcast(read_at<std::int32_t>(pairs + q * 8 + 4)));
  }
};

/// One token's products in float32 with sixteen rows, each weight as dequantize_row gives it, in the order of
/// float_tile. kOffsets: the type has an offset for each block of 32.
template <class Lanes, bool kOffsets>
struct ExactDotSink {
  using Ints = typename Lanes::Ints;
  using Floats = typename Lanes::Floats;
  const float* x;  // the row's next block
  const std::byte* ahead;
  std::size_t ahead_bytes;
  Floats sum = Lanes::zero_floats();
  Floats offset_now = Lanes::zero_floats();
  Ints bytes[8] = {};
  Floats int_scale[2] = {};

  template <int kZero>
  EBB_INLINE void quads(std::size_t q, const Ints& four) {
    bytes[q] = four;
  }
  template <int kZero>
  EBB_INLINE void scaled_quads(std::size_t q, const Ints& four, const Ints& scale) {
    bytes[q] = four;
    if (q % 4 == 0) int_scale[q / 4] = Lanes::to_floats(scale);
  }
  EBB_INLINE void offset(std::size_t, const Floats& value) { offset_now = value; }
  template <int kZero>
  EBB_INLINE void end_block(const Floats& scale) {
    block<kZero>(scale, scale);
  }
  template <int kZero>
  EBB_INLINE void end_scaled_block(const Floats& scale) {
    block<kZero>(Lanes::mul(int_scale[0], scale), Lanes::mul(int_scale[1], scale));  // exact: 18 bits
  }

 private:
  template <int kZero, int kByte>
  EBB_INLINE void column(std::size_t q, const Floats& scale) {
    const Ints byte = Lanes::bit_and(Lanes::template shift_right<8 * kByte>(bytes[q]), Lanes::broadcast(0xff));
    const Ints integer = kZero == 0 ? byte : Lanes::add(byte, Lanes::broadcast(-kZero));
    Floats w = Lanes::mul(Lanes::to_floats(integer), scale);
    if constexpr (kOffsets) w = Lanes::fma(w, Lanes::broadcast(1.0F), offset_now);
    sum = Lanes::fma(w, Lanes::broadcast(x[q * 4 + kByte]), sum);
  }
  template <int kZero>
  EBB_INLINE void block(const Floats& first_scale, const Floats& second_scale) {
    EBB_UNROLL for (std::size_t q = 0; q < 8; ++q) {
      const Floats& scale = q < 4 ? first_scale : second_scale;
      column<kZero, 0>(q, scale);
      column<kZero, 1>(q, scale);
      column<kZero, 2>(q, scale);
      column<kZero, 3>(q, scale);
    }
    x += 32;
    for (std::size_t at = 0; at < ahead_bytes; at += 64) Lanes::prefetch(ahead + at);
    ahead += ahead_bytes;
  }
};

/// Plain floats to a panel [cols][16 rows] f32.
template <class Lanes>
struct FloatPanelSink {
  float* to;
  EBB_INLINE void column(std::size_t c, const typename Lanes::Floats& w) { Lanes::store(to + c * 16, w); }
  EBB_INLINE void end_words() {}
};

/// One token's products with sixteen rows of plain floats, in the order of float_tile.
template <class Lanes>
struct FloatDotSink {
  const float* x;
  const std::byte* ahead;
  typename Lanes::Floats sum = Lanes::zero_floats();

  EBB_INLINE void column(std::size_t c, const typename Lanes::Floats& w) {
    sum = Lanes::fma(w, Lanes::broadcast(x[c]), sum);
  }
  EBB_INLINE void end_words() {
    for (std::size_t at = 0; at < 256; at += 64) Lanes::prefetch(ahead + at);  // sixteen rows took 16 bytes each
    ahead += 256;
  }
};

}  // namespace
}  // namespace ebb::kernels
