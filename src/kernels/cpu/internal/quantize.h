// Activations to int16 in blocks of 32, in the row layout of matmul_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/matmul_kernels.h"

namespace ebb::kernels {
namespace {

/// q = 256 high + low, both in int8: |q| <= 16383.
template <class Lanes>
void store_digits(const typename Lanes::Ints& q, std::byte* low_to) {
  const auto low = Lanes::template shift_right_signed<24>(Lanes::template shift_left<24>(q));
  Lanes::store_bytes(low_to, low);
  Lanes::store_bytes(low_to + 32, Lanes::template shift_right_signed<8>(Lanes::sub(q, low)));
}

/// x = scale * q, |q| <= kMaxActivation, q rounded to nearest. A block with a value that is not finite gets a scale that is
/// not a number, so that its products say so too.
template <class Lanes>
void quantize_row(const float* x, std::size_t cols, const QuantizedRow& to) {
  for (std::size_t b = 0; b < to.block_count; ++b) {
    float block[kQuantizedBlock] = {};
    const float* from = x + b * kQuantizedBlock;
    if ((b + 1) * kQuantizedBlock > cols) {
      for (std::size_t i = 0; b * kQuantizedBlock + i < cols; ++i) block[i] = from[i];
      from = block;
    }
    const auto first = Lanes::load(from);
    const auto second = Lanes::load(from + 16);
    // As integers, magnitudes of floats sort by value and whatever is not finite sorts last.
    const auto magnitude = Lanes::broadcast(0x7fffffff);
    const std::int32_t max_bits = Lanes::max_lane(
        Lanes::max(Lanes::bit_and(Lanes::as_ints(first), magnitude), Lanes::bit_and(Lanes::as_ints(second), magnitude)));
    float largest;
    __builtin_memcpy(&largest, &max_bits, sizeof(largest));
    const bool finite = max_bits < 0x7f800000;
    const float scale = finite ? largest / static_cast<float>(kMaxActivation) : __builtin_nanf("");
    // Below 2^-100 the inverse could overflow; such a block is zero for every purpose.
    const float inverse = finite && largest > 0x1p-100F ? static_cast<float>(kMaxActivation) / largest : 0.0F;
    const auto q_first = finite ? Lanes::round_to_ints(Lanes::mul(first, Lanes::broadcast(inverse))) : Lanes::zero();
    const auto q_second = finite ? Lanes::round_to_ints(Lanes::mul(second, Lanes::broadcast(inverse))) : Lanes::zero();
    Lanes::store(to.pairs + b * 16, Lanes::pack_pairs(q_first, q_second));
    const std::int32_t sum_first = Lanes::sum_lanes(q_first);
    const std::int32_t sum_second = Lanes::sum_lanes(q_second);
    if constexpr (Lanes::kByteDot) {
      if (to.digits != nullptr) {
        store_digits<Lanes>(q_first, to.digits + b * 64);
        store_digits<Lanes>(q_second, to.digits + b * 64 + 16);
        to.digit_sums[2 * b] = sum_first;
        to.digit_sums[2 * b + 1] = sum_second;
      }
    }
    to.scales[b] = scale;
    to.sums16[2 * b] = scale * static_cast<float>(sum_first);
    to.sums16[2 * b + 1] = scale * static_cast<float>(sum_second);
    to.sums32[b] = scale * static_cast<float>(sum_first + sum_second);
  }
}

}  // namespace
}  // namespace ebb::kernels
