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
  template <int kZero>
  EBB_INLINE void quads(std::size_t q, const Ints& bytes) {
    Lanes::store(pairs_to + q * 32, spread<kZero>(bytes));
    Lanes::store(pairs_to + q * 32 + 16, spread<kZero>(Lanes::template shift_right<8>(bytes)));
  }
  template <int kZero>
  EBB_INLINE void scaled_quads(std::size_t q, const Ints& bytes, const Ints& scale) {
    const Ints both = Lanes::masked_or(scale, Lanes::broadcast(0xffff), Lanes::template shift_left<16>(scale));
    Lanes::store(pairs_to + q * 32, Lanes::mul16(spread<kZero>(bytes), both));
    Lanes::store(pairs_to + q * 32 + 16, Lanes::mul16(spread<kZero>(Lanes::template shift_right<8>(bytes)), both));
  }
  EBB_INLINE void offset(std::size_t o, const typename Lanes::Floats& value) { Lanes::store(offsets_to + o * 16, value); }
  template <int kZero>
  EBB_INLINE void end_block(const typename Lanes::Floats& scale) {
    Lanes::store(scales_to, scale);
    pairs_to += 16 * 16;
    scales_to += 16;
  }
  EBB_INLINE void end_scaled_block(const typename Lanes::Floats& scale) { end_block<0>(scale); }
};

/// One token's products with sixteen rows: the same integers and the same order of floats as integer_tile, from bytes.
/// An activation is 256 h + l, digits of 8 bits with a sign each, and so is its product. Weights never touch memory; the
/// ones a few panels further on are asked for meanwhile, because the processor's own prefetch stops at each page's end.
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
  EBB_INLINE void offset(std::size_t o, const typename Lanes::Floats& value) { Lanes::store(offsets_to + o * 16, value); }
  template <int kZero>
  EBB_INLINE void end_block(const typename Lanes::Floats& scale) {
    finish(take(kZero * (read_at<std::int32_t>(sums) + read_at<std::int32_t>(sums + 4))), scale);
  }
  EBB_INLINE void end_scaled_block(const typename Lanes::Floats& scale) { finish(scaled, scale); }

 private:
  EBB_INLINE Ints take(std::int32_t minus) {
    const Ints total = Lanes::add(Lanes::template shift_left<8>(Lanes::add(high[0], high[1])), Lanes::add(low[0], low[1]));
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

}  // namespace
}  // namespace ebb::kernels
