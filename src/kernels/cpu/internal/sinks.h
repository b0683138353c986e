// What becomes of unpacked weights (unpack.h): kept as a panel for many tokens, or multiplied at once for one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/tile.h"

namespace ebb::kernels {
namespace {

template <class Lanes>
struct PanelSink {
  std::int32_t* pairs_to;
  float* scales_to;
  float* offsets_to;

  void pairs(std::size_t p, const typename Lanes::Ints& w) { Lanes::store(pairs_to + p * 16, w); }
  void offset(std::size_t o, const typename Lanes::Floats& value) { Lanes::store(offsets_to + o * 16, value); }
  void end_block(const typename Lanes::Floats& scale) {
    Lanes::store(scales_to, scale);
    pairs_to += 16 * 16;
    scales_to += 16;
  }
};

/// One token's products with sixteen rows, in the order of integer_tile. Weights never touch memory; the ones a panel
/// further on are asked for meanwhile, because the processor's own prefetch stops at each page's end.
template <class Lanes>
struct DotSink {
  const std::byte* x_pairs;
  const std::byte* x_scales;
  float* offsets_to;
  typename Lanes::Floats sum;
  const std::byte* ahead;
  std::size_t ahead_bytes;  // of 16 rows' packed block of 32
  typename Lanes::Ints acc[4] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};

  void pairs(std::size_t p, const typename Lanes::Ints& w) {
    acc[p % 4] = Lanes::dot(acc[p % 4], w, Lanes::broadcast(read_at<std::int32_t>(x_pairs + p * 4)));
  }
  void offset(std::size_t o, const typename Lanes::Floats& value) { Lanes::store(offsets_to + o * 16, value); }
  void end_block(const typename Lanes::Floats& scale) {
    const auto total = Lanes::add(Lanes::add(acc[0], acc[1]), Lanes::add(acc[2], acc[3]));
    const auto x_scale = Lanes::broadcast(read_at<float>(x_scales));
    sum = Lanes::fma(Lanes::to_floats(total), Lanes::mul(scale, x_scale), sum);
    for (auto& a : acc) a = Lanes::zero();
    x_pairs += 64;
    x_scales += 4;
    for (std::size_t at = 0; at < ahead_bytes; at += 64) Lanes::prefetch(ahead + at);
    ahead += ahead_bytes;
  }
};

}  // namespace
}  // namespace ebb::kernels
